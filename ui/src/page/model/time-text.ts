const UNITS: readonly (readonly [unit: Intl.RelativeTimeFormatUnit, seconds: number])[] = [
  ['day', 86_400],
  ['hour', 3600],
  ['minute', 60],
]
const format = new Intl.RelativeTimeFormat('en', { numeric: 'auto' })

/** A time as people say it: `3 minutes ago`. @param now in milliseconds since the epoch */
export function agoText(time: string, now: number): string {
  const seconds = (now - Date.parse(time)) / 1000
  if (Number.isNaN(seconds)) return ''
  const [unit, length] = UNITS.find(([, each]) => seconds >= each) ?? ['second', 1]
  if (unit === 'second') return 'just now'
  return format.format(-Math.floor(seconds / length), unit)
}
