// Publishes all packages that are not private, as .github/workflows/release.yml does. It leaves out
// what the registry has, so that it can run again after a failure.
// node scripts/publish.mjs https://github.com/OWNER/REPOSITORY [OPTION OF NPM...]
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { PublishError, stagePackages } from './published.mjs'

const [source, ...options] = process.argv.slice(2)
if (source === undefined) fail('name the repository, such as https://github.com/OWNER/REPOSITORY')
const directory = mkdtempSync(path.join(os.tmpdir(), 'akri-publish-'))
process.on('exit', () => rmSync(directory, { recursive: true, force: true }))

try {
  for (const staged of stagePackages(directory, source)) publish(staged)
} catch (error) {
  if (!(error instanceof PublishError)) throw error
  fail(error.message)
}

function publish({ name, version, directory: folder }) {
  if (isPublished(name, version)) {
    process.stdout.write(`${name}@${version} is published already\n`)
    return
  }
  // `npm install` takes the version with the tag latest: none such as 1.0.0-beta.1.
  const tag = version.includes('-') ? 'next' : 'latest'
  const { status } = npm(['publish', folder, '--tag', tag], ['ignore', 'inherit', 'inherit'])
  if (status !== 0) throw new PublishError(`npm did not publish ${name}@${version}: see above`)
}

function isPublished(name, version) {
  const stdio = ['ignore', 'pipe', 'inherit']
  const { status, stdout } = npm(['view', `${name}@${version}`, 'version', '--json'], stdio)
  if (status === 0) return stdout.trim() !== ''
  if (stdout.includes('"E404"')) return false
  throw new PublishError(`npm cannot look up ${name}@${version}: ${stdout.trim()}`)
}

function npm(args, stdio) {
  return spawnSync('npm', [...args, ...options], { encoding: 'utf8', stdio })
}

function fail(text) {
  process.stderr.write(`${text}\n`)
  process.exit(1)
}
