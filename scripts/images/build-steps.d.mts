export function isIgnored(file: string, dockerignore: string): boolean

export function runDockerfile(options: {
  readonly dockerfile: string
  readonly directory: string
  readonly context: string
  readonly files: readonly string[]
  readonly imageOf: (image: string) => string | undefined
  readonly args: Readonly<Record<string, string>>
}): Promise<(stage: string) => string>
