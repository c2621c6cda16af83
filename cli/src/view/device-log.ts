import { type Configuration, deviceText, shortageText } from '@akrijs/api'
import type { ObjectKey } from '@akrijs/kube'
import { keyOf } from '@akrijs/kube'
import type { Logger } from '@akrijs/runtime'
import type { StandaloneAgent } from '@akrijs/standalone'

interface DeviceLogSource extends Pick<StandaloneAgent, 'restored'> {
  readonly cluster: { readonly configurations: StandaloneAgent['cluster']['configurations'] }
}

/**
 * Logs what the agent does not: the devices of an earlier run, for which nothing changes, and why a
 * Configuration has no devices, once for each kind of reason.
 */
export function logDevices(
  { restored, cluster: { configurations } }: DeviceLogSource,
  log: Logger,
  signal: AbortSignal,
): void {
  for (const { metadata, spec } of restored) {
    const device = deviceText(spec.brokerProperties)
    log.info({ instance: metadata.name, device }, 'instance restored')
  }
  const logged = new Map<ObjectKey, string>()
  const tell = (key: ObjectKey) => {
    const reason = reasonForNone(configurations.get(key))
    if (reason === undefined) return void logged.delete(key)
    // Numbers and examples change all the time.
    const kind = reason.replaceAll(/\(such as [^)]*\)|\d+/g, '')
    if (logged.get(key) === kind) return
    logged.set(key, kind)
    log.info({ configuration: key, reason }, 'no devices found')
  }
  for (const configuration of configurations.list()) tell(keyOf(configuration))
  configurations.onChange(tell, signal)
}

function reasonForNone(configuration: Configuration | undefined): string | undefined {
  return configuration?.status?.devices === 0 ? shortageText(configuration) : undefined
}
