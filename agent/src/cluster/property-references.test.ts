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

type Property = Configuration['spec']['discoveryHandler']['discoveryProperties'][number]

/** A Configuration of the namespace `line`, with properties from these objects. */
function configurationOf(kind: DataReference['kind'], ...selectors: object[]): Configuration {
  const field = kind === 'Secret' ? 'secretKeyRef' : 'configMapKeyRef'
  const discoveryProperties = selectors.map((selector, index) => {
    const from = { name: 'cameras', key: 'k', ...selector }
    return { name: index === 0 ? 'token' : `p${index}`, valueFrom: { [field]: from } } as Property
  })
  const discoveryHandler = { name: 'h', discoveryDetails: '', discoveryProperties }
  return configurationWith({ discoveryHandler }, { namespace: 'line' })
}

const holding = (readableFrom?: string): ReferencedData => ({
  data: new Map([['k', Buffer.from('s3cret')]]),
  ...(readableFrom !== undefined && { readableFrom }),
})

type Found = ReferencedData | undefined | Error

describe.each(['Secret', 'ConfigMap'] as const)('a reference to a %s', (kind) => {
  /** The value of the property. @param found the object, or why it is not read */
  async function tokenOf(found: Found, selector: object, from = 'factory') {
    const configuration = configurationOf(kind, selector)
    const properties = await resolveReferences(configuration, async (reference) => {
      expect(referenceText(reference)).toBe(`${kind}/${from}/cameras`)
      if (found instanceof Error) throw found
      return found
    })
    return properties.text('token')
  }
  const foreign = (found: Found, selector: object = {}) =>
    tokenOf(found, { namespace: 'factory', ...selector })
  const refusalOf = (found: Found, selector?: object) =>
    foreign(found, selector).then(
      () => expect.fail('it was not refused'),
      (error: unknown) => (PropertyRefusedError.is(error) ? error.message : Promise.reject(error)),
    )

  it('means the namespace of the Configuration by default, without consent', async () => {
    for (const selector of [{}, { namespace: 'line' }])
      expect(await tokenOf(holding(), selector, 'line')).toBe('s3cret')
  })

  it('of another namespace that consents may lack an optional key only', async () => {
    const consenting = holding('hall, line')
    expect(await foreign(consenting)).toBe('s3cret')
    expect(await foreign(consenting, { key: 'none', optional: true })).toBeUndefined()
    await expect(foreign(consenting, { key: 'none' })).rejects.toThrow(
      `${kind} factory/cameras has no key none`,
    )
  })

  it('of another namespace is refused with one message, whatever exists there', async () => {
    const refusals = [
      ...[holding(), holding('hall'), undefined, new MissingPropertyError('not there')],
      new PropertyForbiddenError('cannot be read: 403 forbidden'),
      new PropertyUnreadableError('cannot be read: no answer'),
    ]
    const messages = new Set<string>()
    for (const found of refusals)
      for (const selector of [{}, { optional: true }, { key: 'none' }])
        messages.add(await refusalOf(found, selector))
    expect([...messages]).toEqual([
      `discovery property token: ${kind} factory/cameras is in another namespace than the ` +
        'Configuration. It counts only if it exists, the agent may read it, and its annotation ' +
        'akri.sh/readable-from names line',
    ])
  })

  it('of another namespace does not hide a mistake of the program', async () => {
    await expect(foreign(new TypeError('a mistake'))).rejects.toThrow(TypeError)
  })
})

it('properties of a Configuration have 1 MiB in all, although each object has less', async () => {
  const quarter = async () => ({ data: new Map([['k', Buffer.alloc(256 * 1024)]]) })
  const four = await resolveReferences(configurationOf('Secret', {}, {}, {}, {}), quarter)
  expect(four.text('p3')).toHaveLength(256 * 1024)
  await expect(
    resolveReferences(configurationOf('Secret', {}, {}, {}, {}, {}), quarter),
  ).rejects.toThrow(PropertyRefusedError)
})
