import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { Spec, Validation } from '@cyclonedx/cyclonedx-library'
import { beforeEach, describe, expect, it } from 'vitest'
import { IMAGES, USB_BINARIES } from '../../scripts/image-contents.mjs'
import { noticesText } from '../../scripts/shipped/notices.mjs'
import { partsOf, readNpmPart } from '../../scripts/shipped/parts.mjs'
import {
  BILL,
  imageFiles,
  NOTICES,
  packageFiles,
  publishedFolders,
} from '../../scripts/shipped.mjs'
import { manifestOf, readMetafile, root } from '../../scripts/workspaces.mjs'

const validator = new Validation.JsonStrictValidator(Spec.Version.v1dot6)
const PUBLISHED = publishedFolders()
const IMAGE = 'the image '
const subjects = [...PUBLISHED, ...Object.keys(IMAGES).map((image) => `${IMAGE}${image}`)]
const filesOf = (subject) =>
  subject.startsWith(IMAGE) ? imageFiles(subject.slice(IMAGE.length)) : packageFiles(subject)

/** Names of packages of others that esbuild has put into a bundle. */
function bundledNames(folder) {
  const inputs = Object.values(readMetafile(folder).outputs).flatMap(({ inputs }) =>
    Object.entries(inputs).filter(([, { bytesInOutput }]) => bytesInOutput > 0),
  )
  return new Set(
    inputs.flatMap(([file]) => /.*node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(file)?.[1] ?? []),
  )
}

const SHIPPED = new RegExp(
  '^(dist/(page/)?[\\w.-]+|man/akri\\.1|schemas/[\\w-]+\\.json|' +
    '(dist/examples|prebuilds|templates)/.*)$',
)

describe('the bill of materials', () => {
  it.each(subjects)('of %s is CycloneDX 1.6, and is the same each time', async (subject) => {
    const text = filesOf(subject)[BILL]
    expect(await validator.validate(text)).toBeNull()
    expect(filesOf(subject)[BILL]).toBe(text)
    // It refers to nothing that it does not list.
    const { metadata, components, dependencies, compositions } = JSON.parse(text)
    const refs = [metadata.component, ...components].map((component) => component['bom-ref'])
    expect(new Set(refs).size).toBe(refs.length)
    const used = [
      ...dependencies.flatMap(({ ref, dependsOn }) => [ref, ...dependsOn]),
      ...compositions.flatMap(({ assemblies = [], dependencies: roots = [] }) => [
        ...assemblies,
        ...roots,
      ]),
    ]
    for (const ref of used) expect(refs).toContain(ref)
  })

  it.each(PUBLISHED)(
    'and the notices of %s name all that is in its bundle, and no tool',
    (folder) => {
      const { [BILL]: bill, [NOTICES]: notices } = packageFiles(folder)
      const names = JSON.parse(bill).components.map(({ group, name }) =>
        group === undefined ? name : `${group}/${name}`,
      )
      for (const name of bundledNames(folder)) {
        expect(names).toContain(name)
        expect(notices).toContain(`\n${name} `)
      }
      for (const name of ['esbuild', 'vitest', 'typescript', 'onvif', 'node-opcua']) {
        expect(names).not.toContain(name)
        expect(notices).not.toContain(`\n${name} `)
      }
    },
  )

  it('has the native addons, their digests and headers, and the sources of interfaces', () => {
    const { binaries } = JSON.parse(
      readFileSync(path.join(root, 'handlers/udev/prebuilds/MANIFEST.json'), 'utf8'),
    )
    const udev = JSON.parse(packageFiles('handlers/udev')[BILL]).components
    for (const [target, { sha256 }] of Object.entries(binaries))
      expect(udev).toContainEqual(
        expect.objectContaining({
          name: `prebuilds/${target}/uevent.node`,
          hashes: [{ alg: 'SHA-256', content: sha256 }],
        }),
      )
    expect(udev.map(({ name }) => name)).toContain('node-api-headers')
    const image = JSON.parse(imageFiles()[BILL]).components.map(({ purl }) => purl)
    for (const purl of ['project-akri/akri', 'k8s.io/kubelet', 'k8s.io/cri-api'])
      expect(image).toContainEqual(expect.stringContaining(purl))
  })

  const [binary] = Object.values(USB_BINARIES).flatMap((name) => {
    const file = `${path.basename(name).replace('-', '.')}.node`
    return [path.join(root, 'node_modules', name, file)].filter(existsSync)
  })
  it.skipIf(binary === undefined)(
    'and the notices have what the binary for USB is made of (needs Linux with glibc)',
    () => {
      const places = /\/(?:registry\/src\/[^/]+|rust\/deps)\/([\w-]+)-(\d+\.\d+\.[\w.]+)\//g
      const inside = [...readFileSync(binary, 'latin1').matchAll(places)]
      expect(inside.map(([, name]) => name)).toContain('nusb')
      const { [BILL]: bill, [NOTICES]: notices } = imageFiles('agent')
      const purls = JSON.parse(bill).components.map(({ purl }) => purl)
      for (const [, name, version] of inside) {
        expect(purls).toContain(`pkg:cargo/${name}@${version}`)
        expect(notices).toContain(`\n${name} ${version} (`)
      }
      expect(imageFiles('controller')[BILL]).not.toContain('pkg:cargo/')
    },
  )
})

describe('the tarball', () => {
  it.each(PUBLISHED)('of %s has its licence, the notices and the bill of materials', (folder) => {
    const [{ files }] = JSON.parse(
      execFileSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], {
        cwd: path.join(root, folder),
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'ignore'],
      }),
    )
    const names = files.map((file) => file.path)
    expect(names).toEqual(expect.arrayContaining(['LICENSE', NOTICES, BILL]))
    const single = ['LICENSE', 'README.md', 'CHANGELOG.md', 'package.json', NOTICES, BILL]
    for (const name of names.filter((name) => !single.includes(name))) expect(name).toMatch(SHIPPED)
    expect(names.join()).not.toContain('metafile')
  })

  it('is that of the SDK, the CLI, each handler and npm create; the others are private', () => {
    expect(PUBLISHED.map((folder) => manifestOf(folder).name).sort()).toEqual([
      '@akrijs/cli',
      '@akrijs/create-handler',
      '@akrijs/handler-debug-echo',
      '@akrijs/handler-mdns',
      '@akrijs/handler-modbus',
      '@akrijs/handler-mqtt',
      '@akrijs/handler-onvif',
      '@akrijs/handler-opcua',
      '@akrijs/handler-snmp',
      '@akrijs/handler-ssdp',
      '@akrijs/handler-udev',
      '@akrijs/handler-usb',
      '@akrijs/sdk',
    ])
  })
})

describe('a package that comes into a bundle', () => {
  let directory

  beforeEach(() => {
    directory = mkdtempSync(path.join(os.tmpdir(), 'akri-shipped-'))
  })

  /** The build of the SDK with one more input. */
  function withInput(file) {
    const metafile = structuredClone(readMetafile('sdk'))
    metafile.inputs[file] = { bytes: 1, imports: [] }
    metafile.outputs['dist/index.js'].inputs[file] = { bytesInOutput: 1 }
    return metafile
  }

  /** A package in a node_modules of its own. */
  function install(manifest, files = {}) {
    const folder = path.join(directory, 'node_modules/newcomer')
    mkdirSync(folder, { recursive: true })
    const all = {
      'package.json': JSON.stringify({ name: 'newcomer', version: '1.0.0', ...manifest }),
      ...files,
    }
    for (const [name, text] of Object.entries(all)) writeFileSync(path.join(folder, name), text)
    return folder
  }

  it('changes the notices, so that the check fails until they are written again', () => {
    const { name } = manifestOf('sdk')
    const now = noticesText(name, partsOf('sdk'))
    expect(readFileSync(path.join(root, 'sdk', NOTICES), 'utf8')).toBe(now)
    const then = noticesText(
      name,
      partsOf('sdk', undefined, withInput('../node_modules/zod/index.js')),
    )
    expect(then).not.toBe(now)
    expect(then).toContain('\nzod ')
  })

  it.each([
    [
      'has no file with its licence',
      { license: 'MIT' },
      {},
      'write the text into scripts/shipped/licenses/newcomer.txt',
    ],
    ['names no licence', {}, { LICENSE: 'MIT' }, 'names no licence'],
    [
      'has a licence without a decision about it',
      { license: 'MIT OR GPL-3.0-only' },
      { LICENSE: 'x' },
      'has the licence GPL-3.0-only',
    ],
  ])('is refused if it %s', (_, manifest, files, message) => {
    const folder = install(manifest, files)
    expect(() => readNpmPart(folder)).toThrow(message)
    const input = path.relative(path.join(root, 'sdk'), path.join(folder, 'index.js'))
    expect(() => partsOf('sdk', undefined, withInput(input))).toThrow(message)
  })

  it('is listed with the texts of its licence and of its notices', () => {
    const folder = install(
      { license: '(MIT AND ISC)' },
      { 'license.md': 'MIT\r\n', NOTICE: 'by N. N. ' },
    )
    expect(readNpmPart(folder)).toMatchObject({
      ref: 'pkg:npm/newcomer@1.0.0',
      license: 'MIT AND ISC',
      texts: ['by N. N.', 'MIT'],
    })
  })

  it('is refused if it is an interface of others whose source is not named', () => {
    expect(() => partsOf('sdk', undefined, withInput('../proto/src/generated/new.ts'))).toThrow(
      'name the source of this interface',
    )
  })
})
