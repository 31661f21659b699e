// The script of sample.html, with types: shows the version, confirms the start, and offers the next version.

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
  await updates.addListener('downloadProgress', ({ bytes, of }) => {
    show('update', of ? `Downloading: ${Math.round(100 * bytes / of)} %` : 'Downloading');
  });
  await updates.addListener('updateAvailable', ({ version, notes }) => {
    show('update', `Version ${version} is ready. ${notes ?? ''}`);
    document.getElementById('switch')?.removeAttribute('hidden');
  });
  await updates.addListener('error', ({ code, message }) => show('error', `${code}: ${message}`));
  document.getElementById('switch')?.addEventListener('click', () => {
    updates.reload().catch((error: SwapClientsError) => show('error', `${error.code}: ${error.message}`));
  });
  // An application requests and shows its first data here, and confirms after that.
  show('version', (await updates.getCurrentVersion()).version);
  await updates.startupDidComplete();
}

// Runs at once. A load listener would also run in a broken page.
start().catch((error) => WebAppLocalServer.startupDidFail(String(error)));
