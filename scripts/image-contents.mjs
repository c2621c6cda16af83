// What of our packages is in the image.
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { readMetafile, root } from './workspaces.mjs'

/**
 * @typedef {object} Content of one package
 * @property {string} folder
 * @property {readonly string[]} entries what is started or imported
 * @property {readonly string[]} files the entries and all modules that they load from their folder
 * @property {readonly string[]} assets further folders
 */

/** @returns {{ programs: Content[], packages: Content[] }} */
export function imageContents() {
  const { handlers } = JSON.parse(readFileSync(path.join(root, 'handlers/built-in.json'), 'utf8'))
  return {
    programs: [
      content('agent', ['dist/akri-agent.js']),
      content('controller', ['dist/akri-controller.js']),
      content('webhook', ['dist/akri-webhook.js']),
    ],
    packages: [
      content('sdk', [
        'dist/index.js',
        'dist/network.js',
        'dist/akri-handler.js',
        'dist/stdin-watch.js',
      ]),
      ...handlers.map(({ folder, assets }) => content(folder, ['dist/index.js'], assets)),
    ],
  }
}

function content(folder, entries, assets = []) {
  const { outputs } = readMetafile(folder)
  const files = new Set(entries)
  // The loop also visits the files that it adds.
  for (const file of files)
    for (const { path: module, external } of outputs[file].imports) if (!external) files.add(module)
  return { folder, entries, files: [...files].sort(), assets }
}
