import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { Browser, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest'
import { AkriProgram } from '../standalone/support/akri-program.js'
import { configuration } from '../standalone/support/manifests.js'
import { pageAddress } from '../standalone/support/page-visitor.js'
import { eventually } from '../support/eventually.js'
import { describeUnless } from '../support/unless.js'
import { axeFaults } from './support/axe-faults.js'
import { goTo, missingForBrowsers, openPage, startBrowser } from './support/browser.js'

const HOSTILE = '<img src=x onerror="window.hacked = true">'

const echo = (name: string, ...descriptions: readonly string[]) =>
  configuration(
    name,
    `  discoveryHandler:
    name: debugEcho
    discoveryDetails: ${JSON.stringify(JSON.stringify({ descriptions }))}\n`,
  )

describeUnless(missingForBrowsers, 'the page that tries Configurations', () => {
  const akri = AkriProgram.ofEachTest()
  let browser: Browser
  let manifests: string

  beforeAll(async () => {
    browser = await startBrowser()
  })

  afterAll(() => browser.close())

  beforeEach(async () => {
    manifests = path.join(akri.directory, 'manifests')
    await mkdir(manifests)
    await writeFile(path.join(manifests, 'first.yaml'), echo('first', 'one'))
  })

  afterEach(async () => {
    for (const context of browser.contexts()) await context.close()
  })

  /** The page of an agent with further arguments. */
  async function tryPage(
    args: readonly string[],
    options: Parameters<typeof openPage>[2] = {},
  ): Promise<Page> {
    akri.start('-f', manifests, ...args)
    const page = await openPage(browser, await pageAddress(akri), options)
    await goTo(page, '/try')
    await editor(page).waitFor()
    return page
  }

  const editor = (page: Page) => page.getByRole('textbox', { name: 'Configuration, as YAML' })
  const checks = (page: Page) => page.getByRole('status').filter({ hasText: /problems?, / })
  const discovery = (page: Page) => page.getByRole('button', { name: 'Run discovery' })

  /** Writes a text, and waits for its check: until then buttons are about the text before. */
  async function write(page: Page, text: string): Promise<void> {
    const checked = page.waitForResponse(
      (response) =>
        response.url().endsWith('/api/try/check') &&
        response.request().postDataJSON().text === text,
    )
    // A browser that is slow can insert a text before the editor has selected the text before.
    await eventually(async () => {
      await editor(page).click()
      await page.keyboard.press('ControlOrMeta+A')
      await page.keyboard.insertText(text)
      expect((await page.locator('.cm-line').allTextContents()).join('\n')).toBe(text)
    })
    await checked
  }

  it('refuses a wrong text, and explains it at its place', async () => {
    const page = await tryPage([])
    await checks(page).filter({ hasText: '0 problems, 0 warnings' }).waitFor()
    await write(page, echo('lab', 'one').replace('spec:\n', 'spec:\n  capacty: 2\n'))
    const finding = page.getByRole('list', { name: 'Findings' }).getByRole('button')
    await finding.filter({ hasText: 'problem, line 5 spec.capacty: ' }).waitFor()
    expect(await discovery(page).isDisabled()).toBe(true)
    await finding.first().click()
    await page.locator('.cm-lint-marker-error').waitFor()
    expect(await page.locator('.cm-activeLine').textContent()).toBe('  capacty: 2')
    // The check is that of `akri validate`.
    const text = echo('lab', 'one').replace('descriptions', 'descriptons')
    await write(page, text)
    const message = 'there is no such field; did you mean descriptions?'
    await finding.filter({ hasText: message }).waitFor()
    expect(akri.run(['validate', '-'], text).stdout).toContain(message)
  })

  it('shows what a discovery would find as texts, and saves nothing', async () => {
    const page = await tryPage([])
    await write(page, echo('lab', 'one', HOSTILE))
    await discovery(page).click()
    await page.getByText('Would find 2 devices.').waitFor()
    await page.getByRole('list', { name: 'Devices' }).getByText(HOSTILE).first().waitFor()
    expect(await page.locator('img').count()).toBe(0)
    expect(await page.evaluate(() => 'hacked' in globalThis)).toBe(false)
    await write(page, echo('lab'))
    await discovery(page).click()
    await page.getByText('Would find 0 devices.').waitFor()
    expect(await readdir(manifests)).toEqual(['first.yaml'])
    expect(await akri.instances()).toHaveLength(1)
  })

  it('says why a discovery failed, and the agent goes on', async () => {
    const handler = await akri.writeHandler('process.exit(3)')
    const page = await tryPage(['--handler', 'debugEcho', '--handler', handler])
    await write(page, configuration('lab', '  discoveryHandler: { name: mine }\n'))
    await discovery(page).click()
    await page.getByText('the process of the handler ended with code 3').waitFor()
    await eventually(async () => expect(await akri.instances()).toHaveLength(1))
  })

  it('writes nothing without --write, and says why', async () => {
    const page = await tryPage([])
    await page.getByText(/the agent was started without --write/).waitFor()
    expect(await page.getByRole('button', { name: 'Apply…' }).count()).toBe(0)
    const answer = await page.evaluate(
      async (text) => {
        const headers = { 'content-type': 'application/json' }
        const body = JSON.stringify({ text })
        const response = await fetch('/api/try/write', { method: 'POST', headers, body })
        return { status: response.status, text: await response.text() }
      },
      echo('lab', 'one'),
    )
    expect(answer).toEqual({
      status: 422,
      text: '{"error":"this page does not write Configurations"}',
    })
    expect(await readdir(manifests)).toEqual(['first.yaml'])
  })

  it('writes a new file after a question, and edits a file with --write', async () => {
    const page = await tryPage(['--write'])
    await write(page, echo('lab', 'one', 'two'))
    await page.getByRole('button', { name: 'Apply…' }).click()
    await page.getByRole('button', { name: 'Cancel' }).click()
    expect(await readdir(manifests)).toEqual(['first.yaml'])
    await page.getByRole('button', { name: 'Apply…' }).click()
    await page.getByRole('button', { name: 'Write the file' }).click()
    await page.getByText('lab.yaml is written: the agent follows it').waitFor()
    await eventually(async () => expect(await akri.instances()).toHaveLength(3))
    await page.getByRole('combobox').selectOption('default/first')
    await editor(page).filter({ hasText: 'name: first' }).waitFor()
    await write(page, echo('first', 'one', 'three'))
    await page.getByRole('button', { name: 'Apply…' }).click()
    await page.getByRole('button', { name: 'Write the file' }).click()
    await page.getByText('first.yaml is written: the agent follows it').waitFor()
    await eventually(async () => expect(await akri.instances()).toHaveLength(4))
    const file = path.join(manifests, 'first.yaml')
    expect(await readFile(file, 'utf8')).toContain('three')
    await writeFile(file, echo('first', 'theirs'))
    await write(page, echo('first', 'mine'))
    await page.getByRole('button', { name: 'Apply…' }).click()
    await page.getByRole('button', { name: 'Write the file' }).click()
    await page.getByText(/has changed since you opened it/).waitFor()
    expect(await readFile(file, 'utf8')).toContain('theirs')
  })

  it('obeys the policy of the page: no style or script of an editor in its markup', async () => {
    akri.start('-f', manifests)
    const page = await openPage(browser, await pageAddress(akri))
    const broken: string[] = []
    page.on('console', (message) => void broken.push(message.text()))
    await goTo(page, '/try')
    await editor(page).click()
    await page.keyboard.type('[')
    await page.locator('.cm-lint-marker-error').first().hover()
    await page.locator('.cm-tooltip').waitFor()
    expect(broken.filter((text) => /Content Security Policy|TrustedHTML/.test(text))).toEqual([])
    // With its styles, the numbers stand beside the lines.
    const numbers = await page.locator('.cm-gutters').boundingBox()
    const lines = await page.locator('.cm-content').boundingBox()
    expect(Math.abs((lines?.y ?? 0) - (numbers?.y ?? 100))).toBeLessThan(10)
  })

  it.each([
    ['light', 1280],
    ['dark', 390],
  ] as const)('has no fault that axe finds, in %s, at the width %i', async (colorScheme, width) => {
    const viewport = { width, height: 844 }
    const page = await tryPage(['--write'], { colorScheme, viewport, bypassCSP: true })
    await write(page, `# a comment\n${echo('lab', 'one')}  capacty: 1\n  "a": true\n`)
    await checks(page)
      .filter({ hasText: /^[1-9]/ })
      .waitFor()
    expect(await axeFaults(page)).toEqual([])
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(width)
  })
})
