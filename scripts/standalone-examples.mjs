import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { root } from './workspaces.mjs'

/**
 * The Configurations of `npm start`: files and directories. Only Linux has udev; on other systems,
 * the handler usb finds what is plugged in.
 */
export function standaloneExamples(platform = process.platform) {
  const examples = path.join(root, 'examples/standalone')
  if (platform === 'linux') return [examples]
  const files = readdirSync(examples)
    .map((name) => path.join(examples, name))
    .filter((file) => !/^ +name: udev$/m.test(readFileSync(file, 'utf8')))
  return [...files, path.join(root, 'examples/usb')]
}
