import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { Logger } from '@akrijs/runtime'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { temporaryDirectory } from '../../../test/support/temporary-directory.js'
import { SourceFiles } from './source-files.js'

describe('the files of an author', () => {
  let directory: string
  let sources: SourceFiles
  let logged: string[]

  beforeEach(async () => {
    directory = await temporaryDirectory()
    logged = []
    const note = (_fields: object, message: string) => void logged.push(message)
    const log: Logger = { debug: note, info: note, warn: note, error: note, child: () => log }
    sources = new SourceFiles([], log)
  })

  afterEach(async () => {
    sources.close()
  })

  const file = (name: string) => path.join(directory, name)

  it('are bounded, which is logged once', () => {
    for (let index = 0; index < 1100; index++) sources.add(file(`${index}.js`))
    expect(sources.files.size).toBe(1000)
    expect(logged).toEqual(['too many source files'])
  })

  it('do not include installed code', () => {
    sources.add(file('node_modules/zod/index.js'))
    expect(sources.files.size).toBe(0)
  })

  it('can be in a directory that is not there yet', async () => {
    sources.add(file('lib/deep/h.js'))
    await writeFile(file('other.js'), '')
    await mkdir(file('lib'))
    expect(await sources.changed).toBe(file('lib'))
  })

  it('are not watched any more after the end', () => {
    sources.close()
    sources.add(file('h.js'))
    expect(sources.files.size).toBe(0)
  })
})
