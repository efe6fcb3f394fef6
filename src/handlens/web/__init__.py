"""Web pages on this machine's own address: the app. Needs the extra `app`; nothing leaves the machine."""
