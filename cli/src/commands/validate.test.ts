import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import path from 'node:path'
import { createUdevHandler } from '@akrijs/handler-udev'
import { beforeEach, describe, expect, it } from 'vitest'
import { temporaryDirectory } from '../../../test/support/temporary-directory.js'
import { validate } from './validate.js'

let directory: string
let file: string
let printed: string[]

beforeEach(async () => {
  directory = await temporaryDirectory()
  file = path.join(directory, 'cameras.yaml')
  printed = []
})

const check = (paths: readonly string[] = [file], options: { json?: boolean } = {}) =>
  validate(
    paths,
    { json: false, handler: [], ...options },
    {
      load: async (name) => (name === 'udev' ? createUdevHandler() : undefined),
      print: (line) => printed.push(line.replaceAll(`${directory}/`, '')),
    },
  )

/** What the check of a file prints, without the last line, which counts. */
async function problemsOf(text: string): Promise<string[]> {
  writeFileSync(file, text)
  await expect(check()).rejects.toMatchObject({ code: 'AKRI_ERR_INVALID_MANIFEST' })
  return printed.slice(0, -1)
}

const configuration = (handler: string, details: string) => `apiVersion: akri.sh/v0
kind: Configuration
metadata: { name: cameras }
spec:
  discoveryHandler:
    name: ${handler}
    discoveryDetails: ${JSON.stringify(details)}
`

const HEAD = 'apiVersion: akri.sh/v0\nkind: Configuration\nmetadata: { name: cameras }\nspec:\n'

describe('akri validate', () => {
  it('warns of rules that mean something else than in Akri, and succeeds', async () => {
    const rules = ['SUBSYSTEM=="a", KERNEL=="b"', 'KERNEL!="sd.*"', 'SUBSYSTEMS!="usb"']
    const text = configuration('udev', JSON.stringify({ udevRules: rules }))
    writeFileSync(file, text)
    await check()
    const columnOf = (part: string) => (text.split('\n')[6]?.indexOf(part) ?? 0) - 1
    const at = 'spec\\.discoveryHandler\\.discoveryDetails\\.udevRules'
    expect(printed).toEqual([
      expect.stringMatching(
        `^cameras\\.yaml:7:${columnOf('KERNEL!=')}: warning: ${at}\\[1\\]: "sd\\.\\*" contains `,
      ),
      expect.stringMatching(
        `^cameras\\.yaml:7:${columnOf('SUBSYSTEMS')}: warning: ${at}\\[2\\]: SUBSYSTEMS!= holds if`,
      ),
      '1 Configuration in 1 file: 0 problems, 2 warnings',
    ])
  })

  it('fails for a rule that is invalid, with its place', async () => {
    const document = configuration('udev', 'udevRules: [OWNER=="root"]')
    expect(await problemsOf(`${configuration('other', 'x')}---\n${document}`)).toEqual([
      'cameras.yaml:6:5: warning: spec.discoveryHandler.name: the handler "other" is not ' +
        'built in: its details are not checked; give its package by --handler',
      'cameras.yaml:11:13: metadata.name: there is a Configuration cameras in ' +
        `${file} already (namespace default)`.replace(`${directory}/`, ''),
      expect.stringMatching(
        /^cameras\.yaml:15:36: spec\.discoveryHandler\.discoveryDetails\.udevRules\[0\]: line 1/,
      ),
    ])
  })

  it('fails for an invalid Configuration, and for a file that cannot be read', async () => {
    expect(
      await problemsOf(configuration('udev', 'udevRules: []').replace('name: udev', 'nam: udev')),
    ).toEqual([
      expect.stringMatching(/^cameras\.yaml:5:3: spec\.discoveryHandler\.name: it is missing/),
      expect.stringMatching(/^cameras\.yaml:6:5: spec\.discoveryHandler\.nam: there is no such/),
    ])
    await rm(file)
    printed = []
    await expect(check()).rejects.toThrow('1 problem found')
    expect(printed[0]).toMatch(/^cameras\.yaml: it cannot be read/)
  })

  it('reports all problems of a file in the order of its lines', async () => {
    expect(
      await problemsOf(`${HEAD}  capacity: 0
  brokerSpec:
    brokerPodSpec:
      containers:
      - name: broker
        comand: [sh]
        resources:
          limit: {}
  discoveryHandler:
    name: udev
    discoveryDetails: |
      # cameras
      udevRules:
      - KERNEL=="video0"
      - OWNER=="root"
      groupRecursive: perhaps
---
kind: Configuraton
`),
    ).toEqual([
      expect.stringMatching(/^cameras\.yaml:5:3: spec\.capacity: /),
      expect.stringMatching(/:9:9: .*\.containers\[0\]\.image: it is missing/),
      expect.stringMatching(/:10:9: .*\.comand: there is no such field; did you mean command\?$/),
      expect.stringMatching(/:12:11: .*\.limit: there is no such field; did you mean limits\?$/),
      expect.stringMatching(/:19:9: .*\.udevRules\[1\]: line 1/),
      expect.stringMatching(/:20:7: .*\.groupRecursive: /),
      expect.stringMatching(/:22:1: kind: it is "Configuraton"/),
    ])
    expect(printed.at(-1)).toBe('0 Configurations in 1 file: 7 problems, 0 warnings')
  })

  it('explains a | that is missing after discoveryDetails', async () => {
    const rules = '      udevRules:\n      - KERNEL=="video0"\n'
    const asText = 'write a text: in quotes, or on the lines below discoveryDetails: |'
    const hint = 'write | after discoveryDetails: so that the lines below are a text'
    const at = 'cameras.yaml:7:5: spec.discoveryHandler.discoveryDetails'
    const mapping = `${at}: ${asText}; it is a mapping`
    const quoted = rules.replace('"video0"', '"video0": x')
    const list = (item: string) =>
      `    discoveryDetails:\n      a:\n      - ${item}\n  capacity: 1\n`
    for (const [lines, problem] of [
      [`    name: udev\n    discoveryDetails:\n${rules}`, mapping],
      ['    name: udev\n    discoveryDetails: { udevRules: [] }', mapping],
      [
        `    discoveryDetails: udevRules:\n${rules}`,
        `cameras.yaml:6:32: it is not YAML: bad indentation of a mapping entry; ${hint}`,
      ],
      [
        `    discoveryDetails:\n${quoted}       y\n`,
        expect.stringMatching(/^cameras\.yaml:9:\d+: it is not YAML: .*; write \| after/),
      ],
      [list('{{ x'), `cameras.yaml:9:3: it is not YAML: deficient indentation; ${hint}`],
      [list('"x'), `cameras.yaml:9:3: it is not YAML: deficient indentation; ${hint}`],
    ] as const) {
      printed = []
      expect(await problemsOf(`${HEAD}  discoveryHandler:\n${lines}`)).toEqual([problem])
    }
  })

  it('checks the files of a directory, and names that clash in them', async () => {
    writeFileSync(path.join(directory, 'a.yml'), configuration('udev', 'udevRules: []'))
    const json = JSON.stringify({
      apiVersion: 'akri.sh/v0',
      kind: 'Configuration',
      metadata: { name: 'cameras-8120fe' },
      spec: { discoveryHandler: { name: 'udev', discoveryDetails: 'udevRules: [A]' } },
    })
    writeFileSync(path.join(directory, 'b.json'), json)
    writeFileSync(path.join(directory, 'c.txt'), 'no')
    await expect(check([directory, path.join(directory, 'a.yml')])).rejects.toThrow('2 problems')
    expect(printed).toEqual([
      expect.stringMatching(
        `^b\\.json:1:${json.indexOf('"name"') + 1}: metadata\\.name: .*Instance of the .* cameras`,
      ),
      expect.stringMatching(`^b\\.json:1:${json.indexOf('A]') + 1}: .*udevRules\\[0\\]`),
      '2 Configurations in 2 files: 2 problems, 0 warnings',
    ])
    const empty = path.join(directory, 'empty')
    mkdirSync(empty)
    await expect(check([empty])).rejects.toThrow('1 problem found')
    expect(printed).toContain('empty: it is a directory without *.yaml, *.yml and *.json')
  })

  it('checks the other files of a directory, and waits for no writer of a pipe', async () => {
    mkdirSync(path.join(directory, 'a.yaml'))
    execFileSync('mkfifo', [path.join(directory, 'c.yaml')])
    writeFileSync(path.join(directory, 'b.yaml'), configuration('udev', 'udevRules: []'))
    const dotted = `${directory}/./b.yaml`
    await expect(check([directory, dotted])).rejects.toThrow('2 problems found')
    expect(printed).toEqual([
      expect.stringMatching(/^a\.yaml: it is a directory/),
      'c.yaml: it cannot be read: it is not a regular file',
      '1 Configuration in 3 files: 2 problems, 0 warnings',
    ])
  })

  it('prints what the docs show', async () => {
    const docs = readFileSync(path.join(import.meta.dirname, '../../../docs/standalone.md'), 'utf8')
    const shown = /^\$ akri validate cameras\.yaml\n(.*?)\n```$/ms.exec(docs)?.[1]
    await problemsOf(`${HEAD}  discoveryHandler:
    name: udev
    discoveryDetails:
      udevRules: []
  brokerSpec:
    brokerPodSpec:
      containers:
      - name: broker
        image: busybox
        comand: [sh]
`)
    expect(printed.join('\n')).toBe(shown)
  })

  it('prints one line of JSON with --json', async () => {
    writeFileSync(file, configuration('udef', '').replace('spec:', 'spec:\n  capacty: 2'))
    await expect(check([file], { json: true })).rejects.toThrow('1 problem found')
    expect(printed).toHaveLength(1)
    expect(JSON.parse(printed[0] ?? '')).toEqual({
      files: 1,
      configurations: 0,
      problems: 1,
      warnings: 1,
      leftOut: 0,
      findings: [
        {
          level: 'problem',
          file: 'cameras.yaml',
          line: 5,
          column: 3,
          path: 'spec.capacty',
          message: 'there is no such field; did you mean capacity?',
        },
        {
          level: 'warning',
          file: 'cameras.yaml',
          line: 7,
          column: 5,
          path: 'spec.discoveryHandler.name',
          message:
            'the handler "udef" is not built in: its details are not checked; did you mean udev?',
        },
      ],
    })
  })

  it('prints at most 100 findings of a file, counts the others, and ends soon', async () => {
    const wrong = Array.from({ length: 60 }, (_, index) => `  x${index}: 1\n`).join('')
    const documents = Array.from({ length: 100 }, () => `${HEAD}${wrong}`).join('---\n')
    expect(await problemsOf(documents)).toHaveLength(101)
    expect(printed.at(-2)).toMatch(/^\d+ findings more$/)
  })

  it('prints no control character of a file', async () => {
    const evil = '\\u001b[2J\\nfake.yaml:1:1: fine'
    const lines = await problemsOf(
      `${HEAD}  discoveryHandler: { name: udev, "${evil}": 1 }\n  "a\\nb": 1\n`,
    )
    for (const line of lines) {
      // biome-ignore lint/suspicious/noControlCharactersInRegex: none of these may be printed
      expect(line).not.toMatch(/[\u0000-\u001f\u007f-\u009f]/)
      expect(line).toMatch(/^cameras\.yaml:/)
    }
  })

  it('checks details by the handler of the working directory', async () => {
    const akri = { contract: 1, handlers: [{ name: 'pump' }] }
    const manifest = JSON.stringify({ type: 'module', exports: './pump.js', akri })
    writeFileSync(path.join(directory, 'package.json'), manifest)
    const pump = `export default {
      [Symbol.for('akri.discoveryHandler')]: true,
      contract: 1,
      name: 'pump',
      details: { '~standard': { validate: () => ({ issues: [{ message: 'no pump' }] }) } },
    }`
    writeFileSync(path.join(directory, 'pump.js'), pump)
    writeFileSync(file, configuration('pump', 'x'))
    const print = (line: string) => void printed.push(line)
    await expect(
      validate([file], { json: false, handler: [] }, { print, project: directory }),
    ).rejects.toThrow('1 problem found')
    expect(printed[0]).toMatch(/discoveryDetails: no pump$/)
  })
})
