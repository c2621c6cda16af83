// The pictures of the simulated cameras: squares of one shade of grey, as a JPEG.
import { encode } from 'jpeg-js'

/** In squares. */
const WIDTH = 80
const HEIGHT = 45
/** The side of a square in pixels: a block of JPEG has the same, so its edges stay sharp. */
const SCALE = 8
const QUALITY = 80
const LINE_HEIGHT = 11
/** A letter is 5 columns wide. Of each column the lowest bit is at the top. */
const LETTERS = new Map(
  Object.entries({
    0: '3e5149453e',
    1: '00427f4000',
    2: '4261514946',
    3: '2141454b31',
    4: '1814127f10',
    5: '2745454539',
    6: '3c4a494930',
    7: '0171090503',
    8: '3649494936',
    9: '064949291e',
    A: '7e1111117e',
    C: '3e41414122',
    D: '7f4141221c',
    E: '7f49494941',
    G: '3e4149497a',
    M: '7f020c027f',
    R: '7f09192946',
    T: '01017f0101',
    Y: '0708700807',
    '-': '0808080808',
    ':': '0036360000',
  }).map(([letter, columns]) => [letter, Buffer.from(columns, 'hex')]),
)

/**
 * A picture with a title, the date and the time, and a bar that grows with the seconds.
 * @param {string} title digits, dashes and the letters above
 * @param {Date} time
 * @returns {Buffer} a JPEG
 */
export function picture(title, time) {
  const [date, clock = ''] = time.toISOString().slice(0, 19).split('T')
  const shades = Uint8Array.from({ length: WIDTH * HEIGHT }, (_, index) => 40 + index / WIDTH)
  for (const [line, text] of [title.toUpperCase(), date, clock].entries())
    write(shades, text, 4 + line * LINE_HEIGHT)
  const bar = Math.round((time.getUTCSeconds() / 59) * WIDTH)
  shades.fill(200, WIDTH * (HEIGHT - 3), WIDTH * (HEIGHT - 3) + bar)
  return jpeg(shades)
}

function write(shades, text, top) {
  const left = Math.max(0, Math.floor((WIDTH - text.length * 6) / 2))
  for (const [position, letter] of [...text].entries())
    for (const [column, bits] of (LETTERS.get(letter) ?? Buffer.alloc(0)).entries())
      for (let row = 0; row < 7; row++)
        if (bits & (1 << row)) shades[(top + row) * WIDTH + left + position * 6 + column] = 240
}

function jpeg(shades) {
  const [width, height] = [WIDTH * SCALE, HEIGHT * SCALE]
  const pixels = Uint32Array.from({ length: width * height }, (_, at) => {
    const [row, column] = [Math.floor(at / width / SCALE), Math.floor((at % width) / SCALE)]
    return shades[row * WIDTH + column] * 0x010101
  })
  return encode({ data: Buffer.from(pixels.buffer), width, height }, QUALITY).data
}
