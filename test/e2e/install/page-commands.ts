import { readFileSync } from 'node:fs'
import path from 'node:path'

const root = path.join(import.meta.dirname, '../../..')

/**
 * The blocks of commands in a section of a page, in their order.
 * @param page its path in the repository
 */
export function commandBlocks(page: string, section: string): readonly string[] {
  const whole = readFileSync(path.join(root, page), 'utf8')
  const [, text = ''] = new RegExp(`^## ${section}\n(.*?)^## `, 'ms').exec(whole) ?? []
  return [...text.matchAll(/^ *```sh\n(.*?)^ *```$/gms)].map(([, code = '']) => code)
}
