import { maskUrls } from './secrets.js'

/**
 * Characters that terminals and editors obey and do not show: control characters (C0, DEL, C1),
 * marks that change the direction of text, separators of lines and paragraphs. Halves of surrogate
 * pairs too, which UTF-8 cannot hold.
 */
const OBEYED = /[\p{Cc}\p{Bidi_C}\p{Zl}\p{Zp}\p{Cs}]/gu
const OBEYED_IN_LINES = /(?![\t\n])[\p{Cc}\p{Bidi_C}\p{Zl}\p{Zp}\p{Cs}]/gu
/** U+FFFD, the replacement character. */
const REPLACEMENT = '\ufffd'

/** The longest message of a condition or an Event, in bytes: the limit of the Event API. */
export const MAX_MESSAGE_BYTES = 1024
/** So many characters of a text are searched for passwords. */
const MAX_URLS = 64 * 1024
const ELLIPSIS = '…'
/** No line of a message can pass for a line of the program that prints it. */
const NEXT_LINE = '\n| '

/** The text on one line, for a terminal, a name or an annotation. */
export function printable(text: string): string {
  return text.replace(OBEYED, REPLACEMENT)
}

/** The text with its lines and tabs, for values that programs read: a certificate, JSON. */
export function printableLines(text: string): string {
  return text.replaceAll('\r\n', '\n').replace(OBEYED_IN_LINES, REPLACEMENT)
}

/** The first line of a message. */
export function firstLine(text: string): string {
  return linesOf(text)[0] ?? ''
}

/** The lines of a message, without empty lines at its end. */
export function linesOf(text: string): string[] {
  return text.trimEnd().split(/\r?\n/)
}

/**
 * A value as text for a message, without passwords of URLs. A YAML alias can put an object or a
 * list into itself.
 */
export function shorten(value: unknown, maxLength = 60): string {
  if (typeof value === 'object' && value !== null)
    return Array.isArray(value) ? 'a list' : 'a mapping'
  const shown = typeof value === 'string' ? JSON.stringify(maskUrls(value)) : String(value)
  return shown.length > maxLength ? `${shown.slice(0, maxLength)}…` : shown
}

/**
 * A text from outside as the message of a condition or an Event, without passwords of URLs. Lines
 * stay; each further line is marked. A message that is too long is cut.
 */
export function objectMessage(text: string): string {
  // First, as a URL that is cut shows a part of its password.
  const masked = maskUrls(printableLines(text.slice(0, MAX_URLS)))
  // A character has at least one byte: what is cut here does not fit anyway.
  const lines = masked
    .slice(0, MAX_MESSAGE_BYTES + 1)
    .trimEnd()
    .replaceAll('\t', ' ')
    // A message can be passed on as a part of another message.
    .replace(/\n(?:\| )?/g, NEXT_LINE)
  const isCut = masked.length > MAX_MESSAGE_BYTES + 1
  return isCut || Buffer.byteLength(lines) > MAX_MESSAGE_BYTES ? cut(lines) : lines
}

function cut(text: string): string {
  const room = MAX_MESSAGE_BYTES - Buffer.byteLength(ELLIPSIS)
  let bytes = 0
  let end = 0
  for (const character of text) {
    bytes += Buffer.byteLength(character)
    if (bytes > room) break
    end += character.length
  }
  return `${text.slice(0, end)}${ELLIPSIS}`
}
