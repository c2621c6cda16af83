export function defaultStateDirectory(
  environment?: Readonly<Record<string, string | undefined>>,
  account?: { readonly user: number | undefined; readonly home: string },
): string
