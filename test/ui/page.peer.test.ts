import { readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import path from 'node:path'
import type { UiItem } from '@akrijs/ui'
import type { Browser, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, expect, it, onTestFinished } from 'vitest'
import { deviceNamed, MemorySource } from '../../ui/src/testing/memory-source.js'
import { AkriProgram, root } from '../standalone/support/akri-program.js'
import { configuration } from '../standalone/support/manifests.js'
import { pageAddress } from '../standalone/support/page-visitor.js'
import { eventually } from '../support/eventually.js'
import { describeUnless } from '../support/unless.js'
import { axeFaults } from './support/axe-faults.js'
import {
  goTo,
  missingForBrowsers,
  openPage,
  REBOUND,
  startBrowser,
  untilLive,
} from './support/browser.js'
import { servedPage, serverOfPage } from './support/served-page.js'
import { workshop } from './support/workshop.js'

const HOSTILE = '<img src=x onerror="window.hacked = true">'
const PHONE = { width: 390, height: 844 }
const PAGES = ['/', '/devices', '/devices/plant/ip-cameras-4d2f00', '/map', '/handlers']
const IMAGES = path.join(root, 'docs/images')

const echo = (...descriptions: readonly string[]) =>
  configuration(
    'echo',
    `  discoveryHandler:
    name: debugEcho
    discoveryDetails: ${JSON.stringify(JSON.stringify({ descriptions }))}\n`,
  )

describeUnless(missingForBrowsers, 'the page in a browser', () => {
  const akri = AkriProgram.ofEachTest()
  let browser: Browser

  beforeAll(async () => {
    browser = await startBrowser()
  })

  afterAll(() => browser.close())

  afterEach(async () => {
    for (const context of browser.contexts()) await context.close()
  })

  const cards = (page: Page) => page.getByRole('list', { name: 'Devices' }).getByRole('link')

  it('shows the card of a device when it is plugged in, and its name stays a text', async () => {
    const file = await akri.write('echo.yaml', echo('first'))
    akri.start('-f', file)
    const page = await openPage(browser, await pageAddress(akri))
    await page.getByRole('link', { name: 'Devices', exact: true }).click()
    await cards(page).filter({ hasText: 'first' }).waitFor()
    await akri.write('echo.yaml', echo('first', HOSTILE))
    await cards(page).filter({ hasText: HOSTILE }).waitFor()
    await cards(page).filter({ hasText: HOSTILE }).click()
    await page.getByRole('heading', { level: 1, name: HOSTILE }).waitFor()
    expect(await page.locator('img').count()).toBe(0)
    expect(await page.evaluate(() => 'hacked' in globalThis)).toBe(false)
    await akri.write('echo.yaml', echo('first'))
    await page.getByRole('heading', { level: 1, name: /is not there$/ }).waitFor()
  })

  it('gives nothing to a wrong token, and to a name of another site for this machine', async () => {
    const address = await servedPage(workshop())
    const { port, search } = new URL(address)
    const notices = [
      [`http://127.0.0.1:${port}/?token=wrong`, /akri prints that address/],
      [`http://127.0.0.1:${port}/`, /akri prints that address/],
      [`http://${REBOUND}:${port}/${search}`, /Open this page at/],
    ] as const
    for (const [wrong, notice] of notices) {
      const page = await openPage(browser, wrong)
      await page.getByText(notice).waitFor()
      expect(await page.locator('script').count()).toBe(0)
    }
  })

  it('gives nothing to a page of another site in the browser of its visitor', async () => {
    const address = await servedPage(workshop())
    const { origin } = new URL(address)
    const other = createServer((_, response) => {
      response.setHeader('content-type', 'text/html')
      response.end(`<iframe src="${origin}/"></iframe><script src="${origin}/page.js"></script>`)
    })
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void other.close())
    const listening = other.address()
    const port = typeof listening === 'object' && listening !== null ? listening.port : 0
    const page = await openPage(browser, address)
    await untilLive(page)
    // The same browser: it has the cookie, and sends it to all ports of this machine.
    const answers: (readonly [url: string, status: number])[] = []
    page.on('response', (response) => answers.push([response.url(), response.status()]))
    await page.goto(`http://127.0.0.1:${port}/`)
    // The browser hides from the page, and from this test, what it may not embed.
    const statuses = new Map(answers.filter(([url]) => url.startsWith(origin)))
    expect(new Set(statuses.values())).toEqual(new Set([403]))
    const read = await page.evaluate(async (url) => {
      const stream = new EventSource(url, { withCredentials: true })
      const isOpen = await new Promise<boolean>((resolve) => {
        stream.onerror = () => resolve(false)
        stream.onopen = () => resolve(true)
      })
      const text = await fetch(url, { credentials: 'include' }).then(
        (response) => response.text(),
        () => 'nothing',
      )
      return { isOpen, text }
    }, `${origin}/api/watch`)
    expect(read).toEqual({ isOpen: false, text: 'nothing' })
  })

  it('shows a cluster: the Pod of a slot, what cannot be read, and no figure for it', async () => {
    const source = new MemorySource({ title: 'plant', isCluster: true })
    const outages = (messages: string[], unread: UiItem['kind'][]) =>
      source.put('outages/all', { kind: 'outages', messages, unread })
    outages(['The right to list is missing'], ['configuration', 'device', 'events'])
    const server = await serverOfPage(source)
    const page = await openPage(browser, server.address)
    await page.getByText('The right to list is missing').waitFor()
    const figure = (name: string) => page.locator('.figure', { hasText: name })
    await figure('Devices').getByText('unknown').waitFor()
    await figure('Configurations').getByText('unknown').waitFor()
    await page.getByRole('link', { name: 'Devices', exact: true }).click()
    await page.getByText('Not read: see the message above.').waitFor()
    await goTo(page, '/devices/plant/cam-1')
    await page.getByText('Not read: see the message above.').waitFor()
    const object = deviceNamed('cam-1', { NAME: 'dome' }, { used: 1 })
    source.put('device/plant/cam-1', {
      kind: 'device',
      object,
      users: { 'cam-1-0': 'plant/reader' },
    })
    outages(['The API server does not answer'], [])
    await page.getByText('used on node-a: plant/reader').waitFor()
    await page.getByText('The API server does not answer').waitFor()
    await page.getByText('The cluster has no Events of the device.').waitFor()
    outages([], [])
    await page.getByText('The API server does not answer').waitFor({ state: 'detached' })
    await server.close()
    await page.getByText(/akri ui does not answer/).waitFor()
  })

  it('says that the agent was started again, and goes on with the new address', async () => {
    const file = await akri.write('echo.yaml', echo('first'))
    akri.start('-f', file)
    const before = await pageAddress(akri)
    const page = await openPage(browser, before)
    await untilLive(page)
    await akri.stop('SIGTERM')
    await page.getByText(/The agent does not answer/).waitFor()
    akri.start('-f', file, '--ui', new URL(before).port)
    await page.getByText(/has a new address with a new token/).waitFor()
    const after = await eventually(async () => {
      const address = await pageAddress(akri)
      expect(address).not.toBe(before)
      return address
    })
    const tab = await page.context().newPage()
    await tab.goto(after)
    await untilLive(page)
  })

  it('has 10,000 devices, of which the document has those near the window', async () => {
    const source = new MemorySource()
    for (let index = 0; index < 10_000; index++)
      source.putObject(deviceNamed(`lab-${index}`, { NAME: `device ${index}` }))
    const page = await openPage(browser, await servedPage(source))
    await goTo(page, '/devices')
    await page.getByText('10,000 devices').waitFor()
    await page.evaluate('scrollTo(0, document.documentElement.scrollHeight)')
    await cards(page).filter({ hasText: 'device 9999' }).waitFor()
    expect(await cards(page).count()).toBeLessThan(100)
    await page.getByRole('searchbox').fill('NAME=1234')
    await page.getByText('1 of 10,000 devices').waitFor()
    expect(new URL(page.url()).search).toBe('?q=NAME%3D1234')
    await page.reload()
    await page.getByText('1 of 10,000 devices').waitFor()
  })

  it('needs no mouse', async () => {
    const page = await openPage(browser, await servedPage(workshop()))
    await goTo(page, '/devices')
    await page.keyboard.press('/')
    await page.keyboard.type('dome sn-2017')
    await page.getByText('1 of 12 devices').waitFor()
    for (let key = 0; key < 4; key++) await page.keyboard.press('Tab')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { level: 1, name: 'Acme Dome 40' }).waitFor()
  })

  it.each([
    ['light', undefined],
    ['dark', undefined],
    ['light', PHONE],
    ['dark', PHONE],
  ] as const)('has no fault that axe finds, in %s, at the size %j', async (colorScheme, size) => {
    const viewport = size ?? { width: 1280, height: 800 }
    const options = { colorScheme, viewport, bypassCSP: true }
    const page = await openPage(browser, await servedPage(workshop()), options)
    for (const each of PAGES) {
      await goTo(page, each)
      if (each.startsWith('/devices/')) await page.getByText('YAML').click()
      expect(await axeFaults(page), each).toEqual([])
      const width = await page.evaluate('document.documentElement.scrollWidth')
      expect(width, `${each} has no scroll bar at the bottom`).toBeLessThanOrEqual(viewport.width)
    }
  })

  it('has the lines of a Pod, the history and the YAML of a device', async () => {
    const page = await openPage(browser, await servedPage(workshop()))
    await goTo(page, '/devices/plant/ip-cameras-4d2f00')
    await page.getByText('akri.sh/ip-cameras-4d2f00: "1"').waitFor()
    await page.getByText('node-a sees the device').waitFor()
    await page.getByText('YAML').click()
    await page.getByText('cdiName: akri.sh/ip-cameras=ip-cameras-4d2f00').waitFor()
  })

  // AKRI_TEST_SCREENSHOTS=1 writes the pictures again.
  it('is in the pictures of the docs', async () => {
    const isWritten = process.env.AKRI_TEST_SCREENSHOTS === '1'
    const shots = [
      ['ui-overview', 'light', '/'],
      ['ui-devices', 'light', '/devices'],
      ['ui-devices-dark', 'dark', '/devices'],
      ['ui-device', 'light', '/devices/plant/ip-cameras-4d2f00'],
      ['ui-map', 'light', '/map'],
    ] as const
    const address = await servedPage(workshop())
    for (const [name, colorScheme, at] of shots) {
      const page = await openPage(browser, address, { colorScheme })
      await untilLive(page)
      await goTo(page, at)
      const shot = await page.screenshot({ animations: 'disabled' })
      const file = path.join(IMAGES, `${name}.png`)
      if (isWritten) writeFileSync(file, shot)
      // The fonts of machines differ, so pictures are not compared.
      expect(sizeOf(readFileSync(file))).toEqual(sizeOf(shot))
    }
  })
})

/** The width and the height of a PNG. */
function sizeOf(png: Buffer): readonly [number, number] {
  return [png.readUInt32BE(16), png.readUInt32BE(20)]
}
