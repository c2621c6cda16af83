// What of our packages is in each image.
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { readMetafile, root } from './workspaces.mjs'

/**
 * @typedef {object} Content of one package
 * @property {string} folder
 * @property {readonly string[]} entries what is started or imported
 * @property {readonly string[]} files the entries and all modules that they load from their folder
 * @property {readonly string[]} assets further files and folders
 */

/**
 * @typedef {object} Image
 * @property {string} name
 * @property {readonly string[]} programs the folders of their packages
 * @property {'all' | 'inAgent'} [handlers] @default none
 * @property {boolean} [usb] whether it has the binary of the USB handler. @default false
 */

/**
 * The images, by the target of deploy/images/agent.Dockerfile. The webhook checks the details of
 * all handlers, so its image has them too, without the binary of the USB handler.
 * @type {Readonly<Record<string, Image>>}
 */
export const IMAGES = {
  all: {
    name: 'akri-agent',
    programs: ['agent', 'controller', 'webhook', 'cli'],
    handlers: 'all',
    usb: true,
  },
  agent: { name: 'akri-agent-slim', programs: ['agent'], handlers: 'inAgent', usb: true },
  controller: { name: 'akri-controller', programs: ['controller'] },
  webhook: { name: 'akri-webhook', programs: ['webhook'], handlers: 'all' },
  handlers: { name: 'akri-handlers', programs: [], handlers: 'all', usb: true },
}

/** The targets with the client of node-opcua in a further layer, and the image below it. */
export const WITH_OPCUA_CLIENT = {
  'with-opcua-client': { name: 'akri-agent-opcua-client', below: 'all' },
  'handlers-with-opcua-client': { name: 'akri-handlers-opcua-client', below: 'handlers' },
}

/** The binary of the npm package usb for each platform of the images: a layer of its own. */
export const USB_BINARIES = {
  'usb-amd64': '@node-usb/usb-linux-x64-gnu',
  'usb-arm64': '@node-usb/usb-linux-arm64-gnu',
}

const PROGRAMS = {
  agent: ['dist/akri-agent.js', 'dist/loop-watch.js'],
  controller: ['dist/akri-controller.js', 'dist/akri-cleanup.js'],
  webhook: ['dist/akri-webhook.js'],
  cli: [
    'dist/akri.js',
    'dist/discovery-process.js',
    'dist/stdin-watch.js',
    'dist/loop-watch.js',
    'dist/page/page.js',
    'dist/page/page.css',
  ],
}

/** What a build only copies. */
const ASSETS = { cli: ['dist/page/index.html'] }

/** The folder of a program in an image. The others are in one, and share modules. */
export const FOLDERS = { cli: 'cli' }

/**
 * @param {string} image a target of IMAGES
 * @returns {{ name: string, programs: Content[], packages: Content[], npmPackages: string[] }}
 *   npmPackages: those that are in no bundle
 */
export function imageContents(image = 'all') {
  if (!Object.hasOwn(IMAGES, image))
    throw new TypeError(`no image ${image}: name one of ${Object.keys(IMAGES).join(', ')}`)
  const { name, programs, handlers, usb } = IMAGES[image]
  return {
    name,
    programs: programs.map((folder) => content(folder, PROGRAMS[folder], ASSETS[folder])),
    packages: handlers === undefined ? [] : handlerPackages(handlers === 'inAgent'),
    npmPackages: [
      ...(handlers === undefined ? [] : ['usb']),
      ...(usb ? Object.values(USB_BINARIES) : []),
    ],
  }
}

function handlerPackages(onlyInAgent) {
  const { handlers } = JSON.parse(readFileSync(path.join(root, 'handlers/built-in.json'), 'utf8'))
  return [
    content('sdk', [
      'dist/index.js',
      'dist/network.js',
      'dist/akri-handler.js',
      'dist/stdin-watch.js',
    ]),
    ...handlers
      .filter(({ runsInAgent }) => runsInAgent || !onlyInAgent)
      .map(({ folder, modules = [], assets }) =>
        content(folder, ['dist/index.js', ...modules], assets),
      ),
  ]
}

/** Its 34 npm packages stay outside: a program in a Pod uses the files of its service account. */
const ABSENT = /\bkube\/src\/kubeconfig\.ts$/

function content(folder, entries, assets = []) {
  const { outputs } = readMetafile(folder)
  const files = new Set(entries)
  // The loop also visits the files that it adds.
  for (const file of files)
    for (const { path: module, external } of outputs[file].imports)
      if (!external && !ABSENT.test(outputs[module].entryPoint ?? '')) files.add(module)
  return { folder, entries, files: [...files].sort(), assets }
}
