import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { handlerSource } from './handler-source.js'

describe('the source of a handler', () => {
  let directory: string

  beforeEach(async () => {
    directory = await mkdtemp(path.join(os.tmpdir(), 'akri-source-'))
  })

  afterEach(() => rm(directory, { recursive: true, force: true }))

  async function install(name: string): Promise<string> {
    const home = path.join(directory, 'node_modules', name)
    await mkdir(home, { recursive: true })
    await writeFile(path.join(home, 'package.json'), '{}')
    return home
  }

  it('is a package of the working directory if it is not beside the program', async () => {
    const pump = await install('@me/pump')
    expect(handlerSource('@me/pump', directory)).toBe(pump)
    await install('@akrijs/handler-udev')
    expect(handlerSource('@akrijs/handler-udev', directory)).toBe('@akrijs/handler-udev')
  })

  it('is the package of a built-in handler, also if another package has its name', async () => {
    await install('onvif')
    expect(handlerSource('onvif', directory)).toBe('@akrijs/handler-onvif')
  })

  it.each(['none-such', '/opt/sensor', 'constructor'])('stays what it is: %s', (specifier) => {
    expect(handlerSource(specifier, directory)).toBe(specifier)
  })
})
