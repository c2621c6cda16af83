import { spawnSync } from 'node:child_process'
import { mkdir, mkdtemp, readdir, readFile, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { beforeEach, describe, expect, it } from 'vitest'
import { root } from './support/packages.js'

const program = path.join(root, 'create-handler/dist/create-handler.js')

let directory: string

beforeEach(async () => {
  directory = await mkdtemp(path.join(os.tmpdir(), 'akri-create-'))
})

function create(...args: readonly string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, ...args], {
    cwd: directory,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  return { status, stdout, stderr }
}

describe('create-handler', () => {
  it.each([
    [[], 2, 'name the directory of the handler, such as my-sensor'],
    [['x', '--packages', 'none'], 1, 'none cannot be read: ENOENT'],
    [['taken'], 1, /\/taken is there already, and is not an empty directory\n$/],
    [['x', '--packages', 'taken'], 1, 'taken has no tarball of @akrijs/sdk, @akrijs/cli'],
  ])('refuses %j in a line, and writes nothing', async (args, code, message) => {
    await mkdir(path.join(directory, 'taken'))
    await writeFile(path.join(directory, 'taken/mine.txt'), 'mine')
    const { status, stdout, stderr } = create(...args)
    expect(stderr).toMatch(/^create-handler: [^\n]+\n$/)
    expect(stderr).toMatch(message)
    expect([status, stdout]).toEqual([code, ''])
    expect((await readdir(directory, { recursive: true })).sort()).toEqual([
      'taken',
      'taken/mine.txt',
    ])
  })

  it('prints its help and its version', async () => {
    expect(create('--help')).toMatchObject({ status: 0, stdout: expect.stringMatching(/^Usage: /) })
    const { version } = JSON.parse(await readFile(path.join(root, 'package.json'), 'utf8'))
    expect(create('--version')).toMatchObject({ status: 0, stdout: `${version}\n` })
  })
})
