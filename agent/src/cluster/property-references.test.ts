import type { Configuration } from '@akrijs/api'
import { describe, expect, it } from 'vitest'
import {
  MissingPropertyError,
  PropertyForbiddenError,
  PropertyRefusedError,
  PropertyUnreadableError,
} from '../errors.js'
import { configurationWith } from '../testing/objects.js'
import {
  type DataReference,
  type ReferencedData,
  referenceText,
  resolveReferences,
} from './property-references.js'

const FIELDS = { Secret: 'secretKeyRef', ConfigMap: 'configMapKeyRef' } as const

type Property = Configuration['spec']['discoveryHandler']['discoveryProperties'][number]

/** A Configuration of the namespace `line` with one reference. */
function configurationOf(kind: DataReference['kind'], selector: object): Configuration {
  const property = { name: 'token', valueFrom: { [FIELDS[kind]]: selector } } as Property
  return configurationWith(
    {
      discoveryHandler: { name: 'h', discoveryDetails: '', discoveryProperties: [property] },
    },
    { namespace: 'line' },
  )
}

const holding = (readableFrom?: string): ReferencedData => ({
  data: new Map([['k', Buffer.from('s3cret')]]),
  ...(readableFrom !== undefined && { readableFrom }),
})

/** Resolves a reference of namespace `line` to an object of namespace `factory`. */
async function tokenOf(
  kind: DataReference['kind'],
  object: ReferencedData | undefined,
  selector: object = {},
): Promise<string | undefined> {
  const configuration = configurationOf(kind, {
    name: 'cameras',
    key: 'k',
    namespace: 'factory',
    ...selector,
  })
  const properties = await resolveReferences(configuration, async (reference) => {
    expect(referenceText(reference)).toBe(`${kind}/factory/cameras`)
    return object
  })
  return properties.text('token')
}

const messageFrom = (refused: Promise<unknown>) =>
  refused.then(
    () => expect.fail('it was not refused'),
    (error: unknown) => (PropertyRefusedError.is(error) ? error.message : Promise.reject(error)),
  )

describe.each(['Secret', 'ConfigMap'] as const)('a reference to a %s', (kind) => {
  it.each<[string, object]>([
    ['without a namespace', {}],
    ['with the namespace of the Configuration', { namespace: 'line' }],
  ])('%s means the namespace of the Configuration and needs no consent', async (_how, more) => {
    const configuration = configurationOf(kind, { name: 'cameras', key: 'k', ...more })
    const asked: string[] = []
    const properties = await resolveReferences(configuration, async (reference) => {
      asked.push(referenceText(reference))
      return holding()
    })
    expect(properties.text('token')).toBe('s3cret')
    expect(asked).toEqual([`${kind}/line/cameras`])
  })

  it.each(['line', 'hall, line', '*'])(
    'of another namespace counts with the annotation "%s"',
    async (consent) => {
      expect(await tokenOf(kind, holding(consent))).toBe('s3cret')
    },
  )

  it.each([undefined, '', 'hall', 'lin', 'line-2', 'factory', 'line*'])(
    'of another namespace is refused with the annotation "%s", optional or not',
    async (consent) => {
      const refused = (selector: object) => messageFrom(tokenOf(kind, holding(consent), selector))
      expect(await refused({})).toMatch(
        `discovery property token: ${kind} factory/cameras is in another namespace than the ` +
          'Configuration',
      )
      expect(await refused({})).toMatch('annotation akri.sh/readable-from names line')
      expect(await refused({ optional: true })).toBe(await refused({}))
    },
  )

  it('of another namespace is refused with one message, whatever exists there', async () => {
    const failing = (error: Error) =>
      resolveReferences(
        configurationOf(kind, { name: 'cameras', key: 'k', namespace: 'factory' }),
        () => Promise.reject(error),
      )
    const messages = [
      await messageFrom(tokenOf(kind, holding())),
      await messageFrom(tokenOf(kind, holding(), { key: 'none' })),
      await messageFrom(tokenOf(kind, undefined)),
      await messageFrom(tokenOf(kind, undefined, { optional: true })),
      await messageFrom(failing(new MissingPropertyError('not there'))),
      await messageFrom(failing(new PropertyForbiddenError('cannot be read: 403 forbidden'))),
      await messageFrom(failing(new PropertyUnreadableError('cannot be read: no answer'))),
    ]
    expect(new Set(messages).size).toBe(1)
    expect(messages[0]).not.toContain('s3cret')
  })

  it('of another namespace that consents may lack an optional key only', async () => {
    expect(await tokenOf(kind, holding('line'), { key: 'none', optional: true })).toBeUndefined()
    await expect(tokenOf(kind, holding('line'), { key: 'none' })).rejects.toThrow(
      `${kind} factory/cameras has no key none`,
    )
  })

  it('of another namespace does not hide a mistake of the program', async () => {
    const configuration = configurationOf(kind, { name: 'a', key: 'k', namespace: 'factory' })
    await expect(
      resolveReferences(configuration, () => Promise.reject(new TypeError('a mistake'))),
    ).rejects.toThrow(TypeError)
  })
})

describe('the properties of a Configuration', () => {
  const referring = (...names: readonly string[]) => {
    const discoveryProperties = names.map((name) => ({
      name,
      valueFrom: { secretKeyRef: { name, key: 'k' } },
    }))
    return configurationWith({
      discoveryHandler: { name: 'h', discoveryDetails: '', discoveryProperties },
    })
  }
  const of = (size: number) => async () => ({ data: new Map([['k', Buffer.alloc(size)]]) })

  it('have 1 MiB in all at most, although each object has less', async () => {
    const quarter = 256 * 1024
    const four = await resolveReferences(referring('a', 'b', 'c', 'd'), of(quarter))
    expect(four.text('d')).toHaveLength(quarter)
    await expect(
      resolveReferences(referring('a', 'b', 'c', 'd', 'e'), of(quarter)),
    ).rejects.toThrow(PropertyRefusedError)
  })
})
