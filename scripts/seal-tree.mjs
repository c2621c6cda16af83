import { createHash } from 'node:crypto'
import { chmodSync, lutimesSync, readdirSync, readFileSync, statSync } from 'node:fs'
import path from 'node:path'

/**
 * Sets all modes and times of a directory to fixed values: the same files give the same layer.
 * @returns a line with the number of the files, their size and a digest
 */
export function sealTree(directory) {
  const hash = createHash('sha256')
  const sum = { bytes: 0, files: 0 }
  const visit = (file) => {
    const isDirectory = statSync(file).isDirectory()
    if (isDirectory) for (const name of readdirSync(file).sort()) visit(path.join(file, name))
    else {
      const content = readFileSync(file)
      hash.update(`${path.relative(directory, file)} ${content.length}\n`).update(content)
      sum.bytes += content.length
      sum.files++
    }
    chmodSync(file, isDirectory ? 0o755 : 0o644)
    lutimesSync(file, 0, 0)
  }
  visit(directory)
  const size = `${(sum.bytes / 1e6).toFixed(2)} MB`
  return `${directory}: ${sum.files} files, ${size}, sha256:${hash.digest('hex')}\n`
}
