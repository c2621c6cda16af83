import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'

const here = path.dirname(fileURLToPath(import.meta.url))
const addon = path.join(here, `../prebuilds/linux-${process.arch}/uevent.node`)
const inject = path.join(here, '../test-peers/inject-uevents.py')
const canUnshare = process.getuid?.() === 0 && spawnSync('unshare', ['--net', 'true']).status === 0
const has = (command: string) => spawnSync('sh', ['-c', `command -v ${command}`]).status === 0

let folder: string

beforeEach(() => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'akri-addon-'))
})

afterEach(() => {
  rmSync(folder, { recursive: true, force: true })
})

/** Runs a program with `addon` and `inject(from, to)` in its own network namespace and process. */
function run(program: string, flags: string[] = []) {
  const file = path.join(folder, 'program.mjs')
  writeFileSync(
    file,
    `import { createRequire } from 'node:module'
import { spawnSync } from 'node:child_process'
import { Worker } from 'node:worker_threads'
const addon = createRequire(import.meta.url)(${JSON.stringify(addon)})
const inject = (from, to) => {
  const args = [${JSON.stringify(inject)}, String(from), String(to)]
  spawnSync('/usr/bin/python3', args, { stdio: 'inherit' })
}
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))
const until = async (done) => {
  for (const end = Date.now() + 45_000; !done() && Date.now() < end; ) await sleep(10)
}
${program}`,
  )
  return spawnSync('unshare', ['--net', process.execPath, ...flags, file], {
    encoding: 'utf8',
    timeout: 150_000,
  })
}

describe('the socket for device events', () => {
  it.skipIf(!canUnshare || !has('python3'))(
    'D1 survives and reports an overrun (needs root, unshare and python3)',
    () => {
      const { stdout, stderr } = run(`
      let heard = 0
      const errors = []
      const close = addon.open(1, 4096, (message, errno) => {
        if (message === null) errors.push(errno)
        else heard++
      })
      inject(0, 3); await until(() => heard === 3)
      inject(3, 3000); await until(() => errors.length > 0)
      for (let last = -1; last !== heard; ) { last = heard; await sleep(50) }
      const before = heard
      inject(5000, 5003); await until(() => heard >= before + 3)
      console.log(JSON.stringify({ errors: [...new Set(errors)], after: heard - before }))
      close(); close()`)
      expect(stderr).toBe('')
      expect(JSON.parse(stdout)).toEqual({ errors: [os.constants.errno.ENOBUFS], after: 3 })
    },
  )

  it.skipIf(!canUnshare || !has('python3'))(
    'passes an exception of its listener on, and continues (needs root, unshare and python3)',
    () => {
      const { stdout, status } = run(`
      let heard = 0
      process.on('uncaughtException', (error) => console.log(error.message))
      const close = addon.open(1, 65536, () => {
        heard++
        if (heard === 1) throw new Error('of the listener')
      })
      inject(0, 2); await until(() => heard === 2)
      console.log(heard)
      close()`)
      expect({ stdout, status }).toEqual({ stdout: 'of the listener\n2\n', status: 0 })
    },
  )

  it.skipIf(!canUnshare)(
    'keeps no process alive, and can be garbage-collected (needs root and unshare)',
    () => {
      expect(run('addon.open(1, 65536, () => {})').status).toBe(0)
      const collected = run(
        `
      for (let n = 0; n < 200; n++) {
        const close = addon.open(1, 65536, () => {})
        if (n % 2) close()
      }
      gc()
      await sleep(50)
      gc()
      console.log('alive')`,
        ['--expose-gc'],
      )
      expect(collected).toMatchObject({ status: 0, stdout: 'alive\n' })
    },
  )
})

describe('the prebuilt binaries', () => {
  it.skipIf(process.arch !== 'x64' || !has('musl-gcc'))(
    'load with the musl C library (needs x64 and the Debian package musl-tools)',
    () => {
      const symbols =
        spawnSync('nm', ['-D', '--undefined-only', addon], { encoding: 'utf8' }).stdout.match(
          /(napi|uv)_\w+/g,
        ) ?? []
      const source = `
#include <dlfcn.h>
#include <stdio.h>
${symbols.map((name) => `void ${name}(void) {}`).join('\n')}
int main(void) {
  void *addon = dlopen("${addon}", RTLD_NOW);
  puts(addon && dlsym(addon, "napi_register_module_v1") ? "loaded" : dlerror());
}`
      writeFileSync(path.join(folder, 'load.c'), source)
      expect(
        spawnSync(
          'musl-gcc',
          ['-rdynamic', '-o', path.join(folder, 'load'), path.join(folder, 'load.c')],
          { encoding: 'utf8' },
        ).stderr,
      ).toBe('')
      expect(spawnSync(path.join(folder, 'load'), { encoding: 'utf8' }).stdout).toBe('loaded\n')
    },
  )
})
