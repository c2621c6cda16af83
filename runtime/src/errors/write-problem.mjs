// Plain JavaScript, which imports nothing of ours: scripts/prepare.mjs uses this file before
// anything is built.
import { statSync } from 'node:fs'
import path from 'node:path'

/** ENOSPC also names the limit of file watchers, which is no full disk. */
const CODE = /^.*\b(EACCES|EPERM|EROFS|ENOSPC|EDQUOT)\b(?!: System limit).*$/m
/** As npm, Node.js, and Node.js for a socket name files. The last is the one to be made. */
const FILES = [/^npm error path (\/.*)$/gm, /'(\/.+?)'(?=\W*$|; | -> ')/g, /\s(\/\S+)$/g]

/**
 * What a user can do if a file cannot be written (or read): it belongs to another user, or its file
 * system is read-only or full. All programs and scripts that write take their line from here.
 * @param {string} text of the error, or what npm or another program of Node.js printed
 * @param {{ directories: readonly string[], elsewhere: string }} place the directories that belong
 *   to this user; what to do if their file system cannot be used
 * @param {{ uid: number, gid: number }} user
 * @returns {string | undefined} one line; undefined if the text is about something else
 */
export function writeProblem(text, { directories, elsewhere }, user = presentUser()) {
  const [line, code] = CODE.exec(text) ?? []
  if (line === undefined) return undefined
  const files = filesIn(text, line)
  const file = files.at(-1) ?? directories[0]
  if (code === 'EROFS') return `the file system of ${file} is read-only: ${elsewhere}`
  if (code === 'ENOSPC') return `the file system of ${file} is full: free some space`
  if (code === 'EDQUOT') return `the disk quota for ${file} is used up: free some space`
  const directory = directories.find((known) => `${file}/`.startsWith(`${known}/`))
  if (directory === undefined || user.uid === 0)
    return `this user may not write ${file}: ${elsewhere}`
  const [stranger] = [...files, file].flatMap((known) => strangersIn(directory, known, user.uid))
  if (stranger === undefined)
    return `this user may not write ${file}: run chmod -R u+rwX ${quoted(directory)}`
  const owner = stranger.uid === 0 ? 'root' : `user ${stranger.uid}`
  const command = `sudo chown -R ${user.uid}:${user.gid} ${quoted(directory)}`
  return `${stranger.file} belongs to ${owner}: run ${command}`
}

function presentUser() {
  return { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 }
}

function filesIn(text, line) {
  const [ofNpm, ...others] = FILES
  const found = [text.matchAll(ofNpm), ...others.map((form) => line.matchAll(form))]
  const files = found.map((matches) => [...matches].map(([, file]) => file))
  return files.find((names) => names.length > 0) ?? []
}

/** Of a file in a directory and the directories on its way: what belongs to another user. */
function strangersIn(directory, file, user) {
  const uid = ownerOf(file)
  const here = uid === undefined || uid === user ? [] : [{ file, uid }]
  const isBelow = file.startsWith(`${directory}/`)
  return isBelow ? [...here, ...strangersIn(directory, path.dirname(file), user)] : here
}

function ownerOf(file) {
  try {
    return statSync(file).uid
  } catch {
    return undefined
  }
}

function quoted(file) {
  return /^[\w/.,@+-]+$/.test(file) ? file : `'${file.replaceAll("'", "'\\''")}'`
}
