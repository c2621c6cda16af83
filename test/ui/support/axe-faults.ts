import axe from 'axe-core'
import type { Page } from 'playwright-core'

/** What axe finds wrong in a page, whose context has `bypassCSP`. */
export async function axeFaults(page: Page): Promise<string[]> {
  await page.evaluate(axe.source)
  return page.evaluate(async () => {
    const run: typeof axe.run = Reflect.get(globalThis, 'axe').run
    const { violations } = await run()
    return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join()}`)
  })
}
