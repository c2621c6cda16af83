import { existsSync } from 'node:fs'
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'

/** Debian's, or that of a runner of GitHub. */
const CHROMIUM = ['/usr/bin/chromium', '/usr/bin/google-chrome'].find(existsSync)

/** What the tests with a browser need and this machine lacks. */
export const missingForBrowsers: readonly string[] = CHROMIUM === undefined ? ['chromium'] : []

/** A name of another site that leads to this machine, as after DNS rebinding. */
export const REBOUND = 'rebound.example'

export function startBrowser(): Promise<Browser> {
  return chromium.launch({
    executablePath: String(CHROMIUM),
    // Root has no sandbox. The pages are ours.
    args: ['--no-sandbox', `--host-resolver-rules=MAP ${REBOUND} 127.0.0.1`],
  })
}

/** Limits of a busy machine, in milliseconds: a test waits for what is to come, and no longer. */
const LIMIT_MS = 120_000

/** Opens an address in a browser without cookies. */
export async function openPage(
  browser: Browser,
  address: string,
  options: BrowserContextOptions = {},
): Promise<Page> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options })
  context.setDefaultTimeout(LIMIT_MS)
  const page = await context.newPage()
  await page.goto(address)
  return page
}

/** Resolves when the page is up to date. */
export async function untilLive(page: Page): Promise<void> {
  await page.getByText('live', { exact: true }).waitFor()
}

/** Goes to another page of the same server. */
export async function goTo(page: Page, path: string): Promise<void> {
  await page.goto(new URL(path, page.url()).href)
  await untilLive(page)
}
