/** The directories that belong to this user; what to do if their file system cannot be used. */
export interface WritePlace {
  readonly directories: readonly string[]
  readonly elsewhere: string
}

export function writeProblem(
  text: string,
  place: WritePlace,
  user?: { readonly uid: number; readonly gid: number },
): string | undefined
