/** The property that identifies a device for people. */
export function deviceText(properties: Readonly<Record<string, string>>): string {
  const best =
    Object.entries(properties).find(([name]) =>
      /^(UDEV_DEVNODE|ONVIF_DEVICE_SERVICE_URL|OPCUA_DISCOVERY_URL)/.test(name),
    ) ?? Object.entries(properties)[0]
  return best === undefined ? '' : best[1]
}
