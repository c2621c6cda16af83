import type { Configuration, Instance } from '@akrijs/api'
import stringWidth from 'string-width'
import { beforeEach, describe, expect, it, vi } from 'vitest'
import { withoutColors } from './colors.js'
import { LiveScreen } from './live-screen.js'

// A Configuration with 30 cameras, of which each tenth is in the hall.

const EVIL = '\u001b]0;owned\u0007\u001b[2J'
const instances = Array.from({ length: 30 }, (_, index) => ({
  metadata: { name: `cam-${index}`, namespace: 'default' },
  spec: {
    configurationName: 'cams',
    brokerProperties: { PLACE: index % 10 === 0 ? 'Hall' : `yard ${EVIL}` },
    deviceUsage: {},
  },
})) as unknown as Instance[]
const configurations = [
  { metadata: { name: 'cams', namespace: 'default', annotations: {} }, status: undefined },
] as unknown as Configuration[]

let screen: LiveScreen
let redraw: ReturnType<typeof vi.fn<() => void>>
let end: ReturnType<typeof vi.fn<() => void>>
let described: readonly string[]
let lines: string[]

beforeEach(() => {
  redraw = vi.fn()
  end = vi.fn()
  described = ['Name: cam', '', `a line ${'x'.repeat(60)} of http://u:p4ss@10.0.0.5/${EVIL}`]
  lines = []
  const cluster = {
    configurations: { list: () => configurations },
    instances: { list: () => instances },
  }
  screen = new LiveScreen({
    picture: {
      standalone: { cluster, problems: [], handlers: [], problemPlace: () => undefined },
      brokers: { state: () => undefined },
      address: '',
      lines,
    } as unknown as ConstructorParameters<typeof LiveScreen>[0]['picture'],
    describe: async () => described,
    redraw,
    end,
  })
})

function press(...keys: readonly string[]): void {
  for (const key of keys) screen.press({ name: key, text: key.length === 1 ? key : '' })
}

const draw = (columns = 40, rows = 8) => withoutColors(screen.draw({ columns, rows }, true))

describe('the live view with keys', () => {
  it('names the keys in its head', () => {
    expect(draw(120)[0]).toContain('; keys: ↓ list, / filter, l log, q end')
    expect(withoutColors(screen.draw({ columns: 80, rows: 8 }, false))[0]).toContain('Ctrl-C')
  })

  it('lists all objects with the selected one in sight', () => {
    press('down')
    expect(draw()).toEqual([
      'devices',
      '▸ cams  starting',
      ...['0  Hall', '1  yard', '2  yard', '3  yard', '4  yard'].map((text) =>
        expect.stringContaining(`    cam-${text}`),
      ),
      expect.stringMatching(/^↑↓ select, Enter open/),
    ])
    press('end')
    const names = draw().map((line) => /cam-\d+/.exec(line)?.[0])
    expect(names.slice(1, -1)).toEqual([24, 25, 26, 27, 28, 29].map((index) => `cam-${index}`))
    expect(draw()[6]).toMatch(/^▸ +cam-29/)
  })

  it('shows what has the words of the filter', () => {
    press('/', 'h', 'A', 'l')
    expect(draw()).toContain('devices  /hAl')
    expect(draw().filter((line) => line.includes('cam-'))).toHaveLength(3)
    press('x')
    expect(draw()[1]).toBe('nothing has these words')
  })

  it('shows an object, wraps its lines, and follows its changes', async () => {
    press('down', 'down', 'return')
    draw()
    await vi.waitFor(() => expect(draw()).toContain('Name: cam'))
    expect(draw()[0]).toBe('instance cam-0')
    expect(draw().slice(1).join('')).toContain('x'.repeat(60))
    expect(draw().join('\n')).not.toContain('p4ss')
    described = ['gone']
    redraw.mockClear()
    draw()
    await vi.waitFor(() => expect(redraw).toHaveBeenCalledOnce())
    expect(draw()[1]).toBe('gone')
    press('escape')
    expect(draw()[2]).toMatch(/^▸ {3}cam-0/)
  })

  it('shows the end of the log as lines come, unless it is scrolled', () => {
    for (let index = 0; index < 20; index++) lines.push(`line ${index}`)
    press('l')
    expect(draw().slice(0, 2)).toEqual(['log', 'line 14'])
    lines.push('line 20')
    expect(draw()[6]).toBe('line 20')
    press('up')
    lines.push('line 21')
    expect(draw()[6]).toBe('line 19')
  })

  it('ends by q', () => {
    press('q')
    expect(end).toHaveBeenCalledOnce()
  })

  it.each([
    ['list', ['down', 'end']],
    ['filter', ['/', 'y']],
    ['details', ['down', 'down', 'return']],
    ['log', ['l']],
  ])('fits into any terminal, and obeys no text of a device: %s', async (_screen, keys) => {
    lines.push(`y${EVIL}`.repeat(50))
    press(...keys)
    draw()
    await new Promise((resolve) => setImmediate(resolve))
    for (let columns = 1; columns < 60; columns += 7)
      for (let rows = 1; rows < 8; rows++) {
        const drawn = draw(columns, rows)
        expect(drawn.length).toBeLessThanOrEqual(rows)
        for (const line of drawn)
          expect(stringWidth(line)).toBeLessThanOrEqual(Math.max(3, columns))
        // biome-ignore lint/suspicious/noControlCharactersInRegex: none of these may be drawn
        expect(drawn.join('\n')).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f\u0080-\u009f]/)
      }
  })
})
