import { expect, it, onTestFinished } from 'vitest'
import { AuthorReader, BLOCKS, NOT_RUN, OF_REGISTRY } from './author-reader.js'

it('R67 each block of the page for authors is a file, or commands that a test runs', () => {
  expect(BLOCKS.filter(({ kind }) => kind === 'other')).toEqual([])
  const commands = BLOCKS.flatMap((block) => (block.kind === 'commands' ? block.commands : []))
  expect(commands.length).toBeGreaterThan(40)
  const texts = commands.map(({ text }) => text)
  expect(texts).toEqual(expect.arrayContaining([...NOT_RUN.keys()]))
  const sections = BLOCKS.map(({ section }) => section)
  expect(sections).toEqual(expect.arrayContaining(OF_REGISTRY))
})

it('R67 the commands of the page for authors print what the page shows', async () => {
  const reader = await AuthorReader.begin()
  onTestFinished(() => reader.close())
  await reader.follow(BLOCKS.filter(({ section }) => !OF_REGISTRY.includes(section)))
}, 600_000)
