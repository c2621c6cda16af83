/** A Configuration. @param spec its fields, as YAML */
export const configuration = (name: string, spec: string) =>
  `apiVersion: akri.sh/v0\nkind: Configuration\nmetadata: { name: ${name} }\nspec:\n${spec}`
/** The fields of a Configuration of the device null. @param broker its command, as YAML */
export const nullDevice = (
  broker: string,
) => `  discoveryHandler: { name: udev, discoveryDetails: 'udevRules: [KERNEL=="null"]' }
  capacity: 2
  brokerProperties: { SITE: north }
  brokerSpec: { brokerPodSpec: { containers: [{ name: b, command: ${broker} }] } }`
