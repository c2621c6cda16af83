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

describe.each(['Secret', 'ConfigMap'] as const)('a reference to a %s', (kind) => {
  /** The value of the property. @param found the object, or why it is not read */
  async function tokenOf(
    found: ReferencedData | undefined | Error,
    selector: { readonly namespace?: string; readonly key?: string; readonly optional?: boolean },
  ) {
    const configuration = configurationOf(kind, selector)
    const properties = await resolveReferences(configuration, async (reference) => {
      const { namespace = 'line' } = selector
      expect(referenceText(reference)).toBe(`${kind}/${namespace}/cameras`)
      if (found instanceof Error) throw found
      return found
    })
    return properties.text('token')
  }
  const namespace = 'factory'

  it('needs no consent in the namespace of the Configuration', async () => {
    for (const selector of [{}, { namespace: 'line' }])
      expect(await tokenOf(holding(), selector)).toBe('s3cret')
  })

  it('of another namespace that consents may lack an optional key only', async () => {
    const consenting = holding('hall, line')
    expect(await tokenOf(consenting, { namespace })).toBe('s3cret')
    const missing = { namespace, key: 'none' }
    expect(await tokenOf(consenting, { ...missing, optional: true })).toBeUndefined()
    const message = `${kind} factory/cameras has no key none`
    await expect(tokenOf(consenting, missing)).rejects.toThrow(message)
  })

  it('of another namespace is refused with one message, whatever exists there', async () => {
    const message =
      `discovery property token: ${kind} factory/cameras is in another namespace than the ` +
      'Configuration. It counts only if it exists, the agent may read it, and its annotation ' +
      'akri.sh/readable-from names line'
    for (const found of [
      ...[holding(), holding('hall'), undefined, new MissingPropertyError('not there')],
      new PropertyForbiddenError('cannot be read: 403 forbidden'),
      new PropertyUnreadableError('cannot be read: no answer'),
    ])
      for (const selector of [{}, { optional: true }, { key: 'none' }]) {
        const token = tokenOf(found, { namespace, ...selector })
        await expect(token).rejects.toEqual(new PropertyRefusedError(message))
      }
  })

  it('of another namespace does not hide a mistake of the program', async () => {
    const mistake = new TypeError('a mistake')
    await expect(tokenOf(mistake, { namespace })).rejects.toThrow(TypeError)
  })
})

it('properties of a Configuration have 1 MiB in all, although each object has less', async () => {
  const quarter = async () => ({ data: new Map([['k', Buffer.alloc(256 * 1024)]]) })
  const resolve = (count: number) =>
    resolveReferences(configurationOf('Secret', ...Array(count).fill({})), quarter)
  expect((await resolve(4)).text('p3')).toHaveLength(256 * 1024)
  await expect(resolve(5)).rejects.toThrow(PropertyRefusedError)
})
