import type { Browser, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import {
  configurationNamed,
  deviceNamed,
  MemorySource,
} from '../../ui/src/testing/memory-source.js'
import { describeUnless } from '../support/unless.js'
import { axeFaults } from './support/axe-faults.js'
import { goTo, missingForBrowsers, openPage, startBrowser } from './support/browser.js'
import { servedPage } from './support/served-page.js'
import { workshop } from './support/workshop.js'

const HOSTILE = '<img src=x onerror="window.hacked = true">'

describeUnless(missingForBrowsers, 'the map in a browser', () => {
  let browser: Browser

  beforeAll(async () => {
    browser = await startBrowser()
  })

  afterAll(() => browser.close())

  afterEach(async () => {
    for (const context of browser.contexts()) await context.close()
  })

  const litBoxes = (page: Page) => page.locator('.map-lit .map-title').allTextContents()
  const litLines = (page: Page) => page.locator('.map-line-lit').count()

  it('shows one way by the keyboard or the mouse, and none without them', async () => {
    const page = await openPage(browser, await servedPage(workshop()))
    await goTo(page, '/map')
    expect(await litBoxes(page)).toEqual([])
    await page.getByRole('link', { name: /^Nordwall Gate 2/ }).focus()
    const way = ['onvif', 'ip-cameras', 'Nordwall Gate 2', 'node-a']
    const end = 'broker waiting: no answer of the camera for 30 s'
    expect(await litBoxes(page)).toEqual([...way, end])
    expect(await litLines(page)).toBe(4)
    await page.keyboard.press('Tab')
    expect(await litBoxes(page)).not.toContain('Nordwall Gate 2')
    await page.getByRole('link', { name: /^usb-devices/ }).hover()
    expect(await litBoxes(page)).toContain('/dev/video0')
    await page.mouse.move(0, 0)
    expect(await litLines(page)).toBe(0)
  })

  it('has few boxes for 1,000 devices, and says how many have no box', async () => {
    const source = new MemorySource()
    source.putObject(configurationNamed('lab', 'udev'))
    for (let index = 0; index < 1000; index++)
      source.putObject(deviceNamed(`lab-${index}`, { NAME: `device ${index}` }))
    source.putObject(deviceNamed('lab-0', { NAME: HOSTILE }), { phase: 'failed', reason: 'x' })
    const page = await openPage(browser, await servedPage(source))
    await goTo(page, '/map')
    await page.getByRole('link', { name: HOSTILE }).first().waitFor()
    expect(await page.locator('.map-box').count()).toBeLessThan(20)
    expect(await page.evaluate(() => 'hacked' in globalThis)).toBe(false)
    await page.getByRole('combobox').selectOption('plant/lab')
    await page.getByText('940 more devices').click()
    await page.getByText('1,000 devices').waitFor()
  })

  it('tells the same in words, which a narrow screen shows in place of lines', async () => {
    const options = { viewport: { width: 390, height: 844 }, bypassCSP: true }
    const page = await openPage(browser, await servedPage(workshop()), options)
    await goTo(page, '/map')
    const words = 'of ip-cameras; seen by node-a; broker running'
    await page.getByText(words).first().waitFor()
    expect(await page.locator('.map-lines').isVisible()).toBe(false)
    expect(await axeFaults(page)).toEqual([])
    await page.setViewportSize({ width: 1280, height: 800 })
    const devices = page.getByRole('region', { name: 'Devices' })
    expect(await devices.ariaSnapshot()).toContain(words)
  })
})
