import type { ShownConfiguration, ShownDevice } from './shown.js'

export interface PodLines {
  readonly title: string
  readonly text: string
}

/** The lines of a container that asks for a device; only those that nodes offer. */
export function podLines(
  { object }: ShownDevice,
  configuration: ShownConfiguration | undefined,
): PodLines[] {
  const { offer = 'both' } = configuration?.object.spec ?? {}
  const lines = (name: string) => `resources:\n  limits:\n    akri.sh/${name}: "1"\n`
  return [
    ...(offer === 'configuration'
      ? []
      : [{ title: 'This device', text: lines(object.metadata.name) }]),
    ...(offer === 'instance'
      ? []
      : [{ title: 'Any device of its Configuration', text: lines(object.spec.configurationName) }]),
  ]
}
