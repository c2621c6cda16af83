import { Readable } from 'node:stream'
import { MAX_MANIFEST_BYTES } from '@akrijs/api'
import { defineDiscoveryHandler } from '@akrijs/sdk/handler'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import * as z from 'zod'
import { fileFindings } from './file-findings.js'
import { readManifest } from './read-manifest.js'

const handler = (details: z.ZodType) =>
  defineDiscoveryHandler({ name: 'lab', shared: false, details, async *discover() {} })

function check(text: string, details: z.ZodType = z.strictObject({ ports: z.array(z.int()) })) {
  const lab = handler(details)
  const load = async (name: string) => (name === 'lab' ? lab : undefined)
  return fileFindings('f', text, { load, names: ['lab'] })
}

async function linesOf(text: string, details?: z.ZodType): Promise<string[]> {
  const { findings } = await check(text, details)
  return findings.map(
    ({ level, place, path, message }) =>
      `${place?.line}:${place?.column} ${level} ${path}: ${message}`,
  )
}

const configuration = (rest: string) =>
  `apiVersion: akri.sh/v0\nkind: Configuration\nmetadata: { name: lab }\nspec:\n${rest}`
const HANDLER = '  discoveryHandler: { name: lab, discoveryDetails: "ports: []" }\n'

describe('a file', () => {
  it('points into the items of a List', async () => {
    const item = configuration(HANDLER.replace('[]', '[x]')).replaceAll('\n', '\n  ')
    expect(await linesOf(`kind: List\nitems:\n- ${item}\n`)).toEqual([
      expect.stringMatching(
        /^7:63 problem items\[0\]\.spec\.discoveryHandler\.discoveryDetails\.ports\[0\]: /,
      ),
    ])
  })

  it('points to the field of details whose lines YAML folds', async () => {
    const details = '  discoveryHandler:\n    name: lab\n    discoveryDetails: >\n      ports: x\n'
    expect(await linesOf(configuration(details))).toEqual([
      expect.stringMatching(/^7:5 problem spec\.discoveryHandler\.discoveryDetails\.ports: /),
    ])
  })

  it('points to an unknown field of the details, and names the field that is meant', async () => {
    const handler = '  discoveryHandler:\n    name: lab\n    discoveryDetails: |\n'
    const details = `${handler}      ports: []\n      prots: 1\n`
    const schema = z.strictObject({ ports: z.array(z.int()) })
    expect(await linesOf(configuration(details), schema)).toEqual([
      '9:7 problem spec.discoveryHandler.discoveryDetails.prots: there is no such field; ' +
        'did you mean ports?',
    ])
  })

  it('says that a udev rule in brackets needs quotes', async () => {
    const handler = '  discoveryHandler:\n    name: lab\n    discoveryDetails: |\n'
    const details = `${handler}      udevRules: [ATTR{size}=="1"]\n`
    expect(await linesOf(configuration(details))).toEqual([
      expect.stringMatching(/^8:23 problem .*: it is not YAML: .*; put the rule in quotes: \['/),
    ])
  })

  it('reports a handler whose schema throws', async () => {
    const details = z.unknown().transform(() => {
      throw new TypeError('a bug')
    })
    expect(await linesOf(configuration(HANDLER), details)).toEqual([
      '5:34 problem spec.discoveryHandler.discoveryDetails: the handler lab cannot check it: a bug',
    ])
  })

  it('warns if it has no Configuration', async () => {
    expect(await linesOf('# nothing\n')).toEqual([
      'undefined:undefined warning : it has no Configuration',
    ])
  })

  it('warns once of all objects that Akri does not read', async () => {
    const object = (kind: string) => `---\napiVersion: apps/v1\nkind: ${kind}\n`
    expect(await linesOf(object('DaemonSet'))).toEqual([
      '3:1 warning kind: it is "DaemonSet" of "apps/v1", and is left out',
    ])
    const several = `${configuration(HANDLER)}${object('Deployment')}${object('DaemonSet')}`
    expect(await linesOf(several)).toEqual([
      '8:1 warning kind: it is "Deployment" of "apps/v1", and is left out (the first of 2 such ' +
        'objects)',
    ])
  })

  it('never throws, and every problem but those of the whole file has a place', async () => {
    const line = fc.constantFrom(
      ...configuration(HANDLER).split('\n'),
      '  discoveryHandler:',
      '    name: lab',
      '    discoveryDetails: |',
      '      ports: [1, x]',
      '       - : {',
      '    discoveryDetails: *a',
      '  brokerSpec: &a { brokerPodSpec: { containers: [{}, 1, null] } }',
      '  brokerSpec: { brokerJobSpec: { template: *a } }',
      '  "": { "a.b": [1] }',
      'kind: List',
      'items: [{ kind: Configuration }, 1]',
      '---',
      '\t',
      '? [a]',
      '__proto__: { kind: Configuration }',
    )
    await fc.assert(
      fc.asyncProperty(fc.array(line), async (lines) => {
        for (const { file, path, place } of (await check(lines.join('\n'))).findings) {
          expect(file).toBe('f')
          if (path !== '') expect(Math.min(place?.line ?? 0, place?.column ?? 0)).toBeGreaterThan(0)
        }
      }),
      { numRuns: 200 },
    )
  })
})

describe('the text of a file', () => {
  it('comes from standard input for -', async () => {
    expect(await readManifest('-', () => Readable.from([Buffer.from('a: '), 'é']))).toBe('a: é')
  })

  it('is not read to an end that does not come', async () => {
    const text = await readManifest('/dev/zero')
    expect(text.length).toBeGreaterThan(MAX_MANIFEST_BYTES)
    expect((await check(text)).findings).toMatchObject([
      { message: expect.stringContaining('more than') },
    ])
  })
})
