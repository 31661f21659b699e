CLIENTCTL_VERSION = @VERSION@
# The address of the release's files.
CLIENTCTL_SITE ?= https://updates.example.com/clientctl
CLIENTCTL_SOURCE = @PROGRAM@
CLIENTCTL_LICENSE = Apache-2.0, BSD-2-Clause, BSD-3-Clause, Zlib, GPL-3.0 with exceptions
CLIENTCTL_DEPENDENCIES = libcurl ca-certificates

define CLIENTCTL_EXTRACT_CMDS
	cp $(CLIENTCTL_DL_DIR)/$(CLIENTCTL_SOURCE) $(@D)/clientctl
endef

define CLIENTCTL_INSTALL_TARGET_CMDS
	$(INSTALL) -D -m 0755 $(@D)/clientctl $(TARGET_DIR)/usr/bin/clientctl
endef

$(eval $(generic-package))
