import { BinaryReader, WireType } from '@bufbuild/protobuf/wire'
import type { Part } from '../announced-devices.js'
import { MAX_DEVICES } from '../limits.js'
import { type Form, text } from './form.js'

const NAMESPACE = 'spBv1.0'
/** Where a broker that knows Sparkplug keeps births. A birth itself is not retained. */
const CERTIFICATES = '$sparkplug/certificates/'
const TOPIC = new RegExp(`^${NAMESPACE}/([^/]+)/([ND])(BIRTH|DEATH|DATA)/([^/]+)(?:/([^/]+))?$`)

/** What is offered. */
export type SparkplugKind = 'device' | 'edgeNode'

/** Sparkplug B: births and deaths. Data is a sign of life: a birth is sent once. */
export function sparkplug(groups: readonly string[], offer: readonly SparkplugKind[]): Form {
  /** The number of the last birth of each edge node. */
  const births = new Map<string, string>()
  const ofType = (type: string) =>
    (groups.length > 0 ? groups : ['+']).flatMap((group) => [
      `${NAMESPACE}/${group}/N${type}/+`,
      `${NAMESPACE}/${group}/D${type}/+/+`,
    ])
  return {
    topics: ['BIRTH', 'DEATH', 'DATA'].flatMap(ofType),
    optionalTopics: ofType('BIRTH').map((topic) => CERTIFICATES + topic),
    read(topic, payload) {
      const name = topic.startsWith(CERTIFICATES) ? topic.slice(CERTIFICATES.length) : topic
      const [, group, letter, type, node, device] = TOPIC.exec(name) ?? []
      if (group === undefined || node === undefined) return undefined
      if ((letter === 'D') !== (device !== undefined) || !text.safeParse(name).success)
        return undefined
      const ofNode = `${group}/${node}`
      const key = device === undefined ? ofNode : `${ofNode}/${device}`
      if (type === 'DEATH') {
        if (device !== undefined) return { key, parts: [] }
        const born = births.get(ofNode)
        // The last will of an earlier connection can come after the next birth.
        if (born !== undefined && (birthOf(payload) ?? born) !== born) return undefined
        births.delete(ofNode)
        return { key, parts: [], withdrawn: `${key}/` }
      }
      if (type === 'BIRTH' && device === undefined) {
        const birth = birthOf(payload)
        if (birth !== undefined && births.size < MAX_DEVICES) births.set(ofNode, birth)
      }
      if (!offer.includes(device === undefined ? 'edgeNode' : 'device')) return undefined
      const part: Part = {
        ...{ id: key, isPresent: true },
        topic: [NAMESPACE, group, `${letter}DATA`, node, device].filter(Boolean).join('/'),
        properties: {
          MQTT_SPARKPLUG_GROUP: group,
          MQTT_SPARKPLUG_EDGE_NODE: node,
          MQTT_SPARKPLUG_DEVICE: device,
        },
      }
      return { key, parts: [part] }
    },
  }
}

/** Field numbers of Payload and Metric (Sparkplug 3.0, 6.4). */
const METRICS = 2
const NAME = 1
const VALUES = [10, 11]

/** The metric `bdSeq`, which a birth and its death have in common. */
function birthOf(payload: Buffer): string | undefined {
  try {
    for (const [field, metric] of fieldsOf(payload)) {
      if (field !== METRICS || !(metric instanceof Uint8Array)) continue
      const fields = [...fieldsOf(metric)]
      const name = fields.find(([number]) => number === NAME)?.[1]
      if (!(name instanceof Uint8Array) || Buffer.from(name).toString() !== 'bdSeq') continue
      const value = fields.find(([number]) => VALUES.includes(number))?.[1]
      return value === undefined ? undefined : String(value)
    }
  } catch {
    // Not every client has it right: the topic says enough.
  }
  return undefined
}

function* fieldsOf(bytes: Uint8Array): Generator<readonly [field: number, value: unknown]> {
  const reader = new BinaryReader(bytes)
  while (reader.pos < reader.len) {
    const [field, type] = reader.tag()
    if (type === WireType.LengthDelimited) yield [field, reader.bytes()]
    else if (type === WireType.Varint) yield [field, reader.uint64()]
    else reader.skip(type, field)
  }
}
