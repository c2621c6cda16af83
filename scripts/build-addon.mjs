// Builds handlers/udev/native/uevent.c for each architecture into handlers/udev/prebuilds. The
// binaries are checked in, so that no user needs a compiler. `--check` fails if they do not come
// from this source. If the compiler that built them is installed, it also fails if that compiler
// gives another result.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import os from 'node:os'
import path from 'node:path'
import { root } from './workspaces.mjs'

const source = path.join(root, 'handlers/udev/native/uevent.c')
const prebuilds = path.join(root, 'handlers/udev/prebuilds')
const manifestFile = path.join(prebuilds, 'MANIFEST.json')

const COMPILERS = { 'linux-x64': 'x86_64-linux-gnu-gcc', 'linux-arm64': 'aarch64-linux-gnu-gcc' }
const FLAGS = [
  '-std=c17 -Os -fPIC -shared -Wall -Wextra -Werror -fvisibility=hidden -fno-stack-protector',
  // The binary links to no library: the process that loads it has all functions.
  '-nostdlib -U_FORTIFY_SOURCE -Wl,-z,relro,-z,now -Wl,--build-id=none -s',
].flatMap((flags) => flags.split(' '))

const sha256 = (data) => createHash('sha256').update(data).digest('hex')
const recipe = sha256(
  Buffer.concat([readFileSync(source), Buffer.from(JSON.stringify([COMPILERS, FLAGS]))]),
)

if (process.argv.includes('--check')) check()
else build()

function build() {
  const manifest = { recipe, binaries: {} }
  for (const [target, compiler] of Object.entries(COMPILERS)) {
    const version = versionOf(compiler)
    if (version === undefined)
      fail(
        `${compiler} is missing, or its headers are: install both (Debian: gcc, libc6-dev, ` +
          'gcc-aarch64-linux-gnu, libc6-dev-arm64-cross)',
      )
    const output = path.join(prebuilds, target, 'uevent.node')
    mkdirSync(path.dirname(output), { recursive: true })
    compile(compiler, output)
    manifest.binaries[target] = { compiler: version, sha256: sha256(readFileSync(output)) }
  }
  writeFileSync(manifestFile, `${JSON.stringify(manifest, undefined, 2)}\n`)
}

function check() {
  const manifest = JSON.parse(readFileSync(manifestFile, 'utf8'))
  if (manifest.recipe !== recipe)
    fail(
      'handlers/udev/native/uevent.c or its flags have changed: run node scripts/build-addon.mjs',
    )
  const folder = mkdtempSync(path.join(os.tmpdir(), 'akri-addon-'))
  try {
    for (const [target, { compiler, sha256: wanted }] of Object.entries(manifest.binaries)) {
      if (sha256(readFileSync(path.join(prebuilds, target, 'uevent.node'))) !== wanted)
        fail(`${target}/uevent.node is not what was built`)
      if (versionOf(COMPILERS[target]) !== compiler) continue
      const output = path.join(folder, `${target}.node`)
      compile(COMPILERS[target], output)
      if (sha256(readFileSync(output)) !== wanted)
        fail(`${target}/uevent.node is not what ${compiler} makes of the source`)
    }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

function compile(compiler, output) {
  const headers = path.join(
    path.dirname(createRequire(import.meta.url).resolve('node-api-headers')),
    'include',
  )
  const run = spawnSync(compiler, [...FLAGS, `-I${headers}`, '-o', output, 'uevent.c'], {
    cwd: path.dirname(source),
    encoding: 'utf8',
  })
  if (run.status !== 0) fail(`${compiler} failed:\n${run.stderr ?? run.error}`)
}

/**
 * Undefined if the compiler or the headers of the C library are missing. The headers are a package
 * of their own.
 */
function versionOf(compiler) {
  const headers = spawnSync(compiler, ['-fsyntax-only', '-x', 'c', '-'], {
    input: '#include <errno.h>',
  })
  const run = spawnSync(compiler, ['--version'], { encoding: 'utf8' })
  return headers.status === 0 && run.status === 0 ? run.stdout.split('\n')[0] : undefined
}

function fail(text) {
  process.stderr.write(`build-addon: ${text}\n`)
  process.exit(1)
}
