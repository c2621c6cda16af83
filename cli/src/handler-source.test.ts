import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { beforeEach, describe, expect, it } from 'vitest'
import { temporaryDirectory } from '../../test/support/temporary-directory.js'
import { handlerSource } from './handler-source.js'

describe('the source of a handler', () => {
  let directory: string

  beforeEach(async () => {
    directory = await temporaryDirectory()
  })

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
