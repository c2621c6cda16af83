import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { beforeEach, describe, expect, it } from 'vitest'
import { temporaryDirectory } from '../../test/support/temporary-directory.js'
import { projectHandlers } from './project-handlers.js'

const akri = (name: string) => ({ contract: 1, handlers: [{ name }] })

describe('the handlers of a project', () => {
  let directory: string

  beforeEach(async () => {
    directory = await temporaryDirectory()
  })

  async function write(folder: string, manifest: object): Promise<void> {
    await mkdir(path.join(directory, folder), { recursive: true })
    await writeFile(path.join(directory, folder, 'package.json'), JSON.stringify(manifest))
  }

  it('are that of its package, and those of the packages that it names', async () => {
    await write('.', {
      akri: akri('mine'),
      dependencies: { '@me/pump': '1', 'not-installed': '1', other: '1' },
      devDependencies: { valve: '1' },
    })
    await write('node_modules/@me/pump', { akri: akri('pump') })
    await write('node_modules/valve', { akri: akri('valve') })
    await write('node_modules/other', {})
    await write('node_modules/not-named', { akri: akri('not-named') })
    const handlers = await projectHandlers(directory)
    expect([...handlers.keys()]).toEqual(['mine', 'pump', 'valve'])
    await expect(handlers.get('mine')?.()).rejects.toThrow('has the package been built?')
  })

  it('are none without a package.json, and with one that cannot be read', async () => {
    expect(await projectHandlers(directory)).toEqual(new Map())
    await writeFile(path.join(directory, 'package.json'), '{')
    expect(await projectHandlers(directory)).toEqual(new Map())
    await write('.', { dependencies: ['x'], akri: 1 })
    expect(await projectHandlers(directory)).toEqual(new Map())
  })
})
