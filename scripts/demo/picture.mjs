// The pictures of the simulated cameras: a JPEG (ITU-T T.81, baseline) of blocks of 8 x 8 pixels.
// Each block has one shade of grey, so that its first coefficient is all that it needs.

/** In blocks. */
const WIDTH = 80
const HEIGHT = 45
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
  const segment = (marker, ...bytes) =>
    Buffer.from([0xff, marker, (bytes.length + 2) >> 8, (bytes.length + 2) & 0xff, ...bytes])
  const size = (blocks) => [(blocks * 8) >> 8, (blocks * 8) & 0xff]
  // Lengths of the codes: nine of 4 bits for the differences, one of 1 bit for the end of a block.
  const differences = [0, 0, 0, 9, ...Array(12).fill(0), 0, 1, 2, 3, 4, 5, 6, 7, 8]
  const blockEnd = [1, ...Array(15).fill(0), 0]
  return Buffer.concat([
    Buffer.from([0xff, 0xd8]),
    segment(0xe0, ...Buffer.from('JFIF\0'), 1, 1, 0, 0, 1, 0, 1, 0, 0),
    // The first coefficient is eight times the shade.
    segment(0xdb, 0, ...Array(64).fill(8)),
    segment(0xc0, 8, ...size(HEIGHT), ...size(WIDTH), 1, 1, 0x11, 0),
    segment(0xc4, 0x00, ...differences),
    segment(0xc4, 0x10, ...blockEnd),
    segment(0xda, 1, 1, 0x00, 0, 63, 0),
    codes(shades),
    Buffer.from([0xff, 0xd9]),
  ])
}

/** For each block, the difference to the block before: its number of bits, and these bits. */
function codes(shades) {
  let bits = ''
  let last = 128
  for (const shade of shades) {
    const difference = shade - last
    const length = Math.abs(difference).toString(2).length * Math.abs(Math.sign(difference))
    const code = difference > 0 ? difference : difference + 2 ** length - 1
    bits += length.toString(2).padStart(4, '0')
    if (length > 0) bits += code.toString(2).padStart(length, '0')
    bits += '0'
    last = shade
  }
  const bytes = (bits.match(/.{1,8}/g) ?? []).map((byte) => Number.parseInt(byte.padEnd(8, '1'), 2))
  // A zero after 0xff shows that no marker follows.
  return Buffer.from(bytes.flatMap((byte) => (byte === 0xff ? [byte, 0] : [byte])))
}
