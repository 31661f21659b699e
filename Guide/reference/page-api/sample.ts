// The script of sample.html, with types: says that the page works, shows the version, and offers the next one.

const updates = window.Capacitor?.Plugins?.CapacitorMeteorWebApp;

function show(id: string, text: string): void {
  const element = document.getElementById(id);
  if (element) {
    element.textContent = text;
  }
}

async function start(): Promise<void> {
  if (!updates) {
    show('version', 'not shown by clientctl serve');
    return;
  }
  await updates.addListener('updateAvailable', ({ version }) => {
    show('update', `Version ${version} is ready.`);
    document.getElementById('switch')?.removeAttribute('hidden');
  });
  await updates.addListener('error', ({ code, message }) => show('error', `${code}: ${message}`));
  document.getElementById('switch')?.addEventListener('click', () => {
    updates.reload().catch((error: SwapClientsError) => show('error', `${error.code}: ${error.message}`));
  });
  show('version', (await updates.getCurrentVersion()).version);
  await updates.startupDidComplete();
}

window.addEventListener('load', () => {
  start().catch((error) => WebAppLocalServer.startupDidFail(String(error)));
});
