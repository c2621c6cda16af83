import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { silentLogger, systemClock } from '@akrijs/runtime'
import { serveUi, type UiSource } from '@akrijs/ui'
import { onTestFinished } from 'vitest'
import { root } from '../../standalone/support/akri-program.js'

/** Serves the page with a source until the test has finished. @returns its address */
export async function servedPage(source: UiSource): Promise<string> {
  const server = await serveUi({
    source,
    page: pathToFileURL(path.join(root, 'cli/dist/page/')),
    clock: systemClock,
    log: silentLogger,
  })
  onTestFinished(() => server.close())
  return server.address
}
