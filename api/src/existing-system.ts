import { isRecord, valueAt } from '@akrijs/runtime'
import type { Problem } from './configuration-schema.js'

// What the existing system, 0.13, cannot read in a Configuration. Its agents serve no Configuration
// at all after they have found such a field at their start.

/** Fields of the spec that it reads only if they are absent or have a value. */
export const NOT_NULL_FIELDS = [
  ['capacity'],
  ['brokerProperties'],
  ['offer'],
  ['discoveryHandler', 'discoveryDetails'],
] as const

/** The templates of a broker, as akri.js has them. The existing system has the first two. */
export const BROKER_TEMPLATES = ['brokerPodSpec', 'brokerJobSpec', 'brokerDeploymentSpec'] as const

/** The fields of a Configuration that agents of the existing system cannot read. Never throws. */
export function existingSystemProblems(object: unknown): Problem[] {
  const problems: Problem[] = NOT_NULL_FIELDS.flatMap((path) =>
    valueAt(object, 'spec', ...path) === null
      ? { path: `spec.${path.join('.')}`, message: refusal('leave it out; it is null') }
      : [],
  )
  const broker = valueAt(object, 'spec', 'brokerSpec')
  if (!isRecord(broker)) return problems
  const path = 'spec.brokerSpec'
  const names = Object.keys(broker)
  if (names.length === 0)
    problems.push({ path, message: refusal('leave it out; it has no template') })
  const advice = new Map([
    ['brokerDeploymentSpec', 'write a brokerPodSpec'],
    ['updateStrategy', 'leave it out'],
  ])
  for (const name of [...BROKER_TEMPLATES, 'updateStrategy']) {
    const isNull = broker[name] === null
    const text = isNull ? 'leave it out; it is null' : advice.get(name)
    if (names.includes(name) && text !== undefined)
      problems.push({ path: `${path}.${name}`, message: refusal(text) })
  }
  return problems
}

function refusal(advice: string): string {
  return `agents of Akri 0.13 stop at this field, and serve no Configuration: ${advice}`
}
