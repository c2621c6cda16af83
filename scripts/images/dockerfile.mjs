// Reads a Dockerfile, and checks it: the rules of hadolint that matter here, and ours.
import { DockerfileParser } from 'dockerfile-ast'
import { unpinnedImages } from '../shipped.mjs'

/**
 * @typedef {object} Step an instruction of a stage
 * @property {string} keyword in upper case
 * @property {Readonly<Record<string, string>>} flags such as `from`
 * @property {readonly string[]} args without quotes and flags
 * @property {string} text all that follows keyword and flags
 * @property {readonly (readonly [string, string])[]} properties of ARG, ENV and LABEL
 * @property {number} line
 */

/**
 * @typedef {object} Stage
 * @property {string} name empty if the stage has none
 * @property {string} from an image or the name of a stage
 * @property {string | undefined} platform
 * @property {readonly Step[]} steps
 * @property {number} line
 */

/** @returns {Stage[]} in the order of the file */
export function stagesOf(text) {
  const stages = []
  for (const instruction of DockerfileParser.parse(text).getInstructions()) {
    if (instruction.getKeyword() === 'FROM')
      stages.push({
        name: instruction.getBuildStage() ?? '',
        from: instruction.getImage() ?? '',
        platform: instruction.getPlatformFlag()?.getValue(),
        steps: [],
        line: instruction.getRange().start.line + 1,
      })
    else stages.at(-1)?.steps.push(stepOf(instruction))
  }
  return stages
}

/** The steps of a stage after those of the stages that it starts from. */
export function allSteps(stages, stage) {
  const below = stages.find(({ name }) => name !== '' && name === stage.from)
  return [...(below === undefined ? [] : allSteps(stages, below)), ...stage.steps]
}

/** The labels of the image of a stage. @returns {Record<string, string>} */
export function labelsOf(stages, stage) {
  return Object.fromEntries(
    allSteps(stages, stage).flatMap(({ keyword, properties }) =>
      keyword === 'LABEL' ? properties : [],
    ),
  )
}

function stepOf(instruction) {
  return {
    keyword: instruction.getKeyword(),
    flags: Object.fromEntries(
      (instruction.getFlags?.() ?? []).map((flag) => [flag.getName(), flag.getValue() ?? '']),
    ),
    args: instruction.getArguments().map((argument) => argument.getValue()),
    text: instruction.getRawArgumentsContent() ?? '',
    properties: (instruction.getProperties?.() ?? []).map((property) => [
      property.getName(),
      property.getValue() ?? '',
    ]),
    line: instruction.getRange().start.line + 1,
  }
}

const KEYWORDS = ['ARG', 'CMD', 'COPY', 'ENTRYPOINT', 'ENV', 'LABEL', 'RUN', 'USER', 'WORKDIR']
/** What RUN should not contain, and why. The codes are those of hadolint. */
const COMMANDS = [
  [/\bsudo\b/, 'DL3004: sudo'],
  [/(^|[;&|]\s*)cd\s/, 'DL3003: use WORKDIR'],
  [/\b(apt|apt-get|apk|yum|dnf)\s/, 'DL3008: packages of the distribution have no digest here'],
  [/\bpip3?\s+install\b/, 'DL3013: packages of Python have no digest here'],
  [/\bnpm\s+(install|i|add)\b(?! --no-save --)/, 'DL3016: only what the lock file has'],
  [/\b(curl|wget)\b/, 'DL3047: a download has no digest here'],
  [/[^|]\|[^|]/, 'DL4006: a pipe hides the status of its first command'],
  [/;/, 'DL4006: the status before ; is lost'],
]

/** @returns {string[]} what is wrong, each with its line */
export function dockerfileProblems(text) {
  const stages = stagesOf(text)
  const problems = unpinnedImages(text).map((image) => `DL3006: ${image} has no digest`)
  const report = ({ line }, problem) => problems.push(`${line}: ${problem}`)
  const names = new Set()
  for (const stage of stages) {
    if (names.has(stage.name)) report(stage, `DL3024: a second stage ${stage.name}`)
    // RUN for another platform than that of the builder needs an emulation.
    const steps = allSteps(stages, stage)
    const isNative = platformOf(stages, stage) === '$BUILDPLATFORM'
    for (const step of stage.steps) {
      const { keyword, flags, args } = step
      if (!KEYWORDS.includes(keyword)) report(step, `DL3020: ${keyword}`)
      if (keyword === 'WORKDIR' && !args[0]?.startsWith('/'))
        report(step, 'DL3000: relative WORKDIR')
      if (keyword === 'COPY') checkCopy(step, steps, names, report)
      if (/^(CMD|ENTRYPOINT)$/.test(keyword) && !step.text.startsWith('['))
        report(step, `DL3025: ${keyword} should be JSON`)
      if (keyword === 'RUN') {
        if (!isNative) report(step, 'RUN on the platform of the image')
        for (const [pattern, problem] of COMMANDS)
          if (pattern.test(step.text)) report(step, problem)
      }
      if (keyword === 'ENV')
        for (const [name, value] of step.properties)
          if (new RegExp(`\\$\\{?${name}\\b`).test(value)) report(step, `DL3044: ${name} of itself`)
      if (keyword === 'LABEL')
        for (const [name] of step.properties)
          if (!/^org\.opencontainers\.image\.[a-z]+$/.test(name)) report(step, `DL3048: ${name}`)
      if (flags.from !== undefined && flags.from === stage.name)
        report(step, 'DL3023: --from itself')
    }
    for (const keyword of ['CMD', 'ENTRYPOINT'])
      if (stage.steps.filter((step) => step.keyword === keyword).length > 1)
        report(stage, `DL4003: two ${keyword}`)
    if (stage.name !== '') names.add(stage.name)
    if (!steps.some(({ keyword }) => /^(CMD|ENTRYPOINT)$/.test(keyword))) continue
    const user = steps.findLast(({ keyword }) => keyword === 'USER')?.args[0] ?? ''
    if (!/^[1-9]\d*(:[1-9]\d*)?$/.test(user))
      report(stage, 'DL3002: the user should be a number > 0')
  }
  return problems
}

function checkCopy(step, steps, names, report) {
  const { flags, args } = step
  const to = args.at(-1) ?? ''
  if (flags.from !== undefined && !names.has(flags.from))
    report(step, `DL3022: no stage ${flags.from} before`)
  if (args.length > 2 && !to.endsWith('/')) report(step, 'DL3021: several sources need a directory')
  if (!to.startsWith('/') && !steps.some(({ keyword }) => keyword === 'WORKDIR'))
    report(step, 'DL3045: relative destination without WORKDIR')
}

function platformOf(stages, stage) {
  const below = stages.find(({ name }) => name !== '' && name === stage.from)
  return stage.platform ?? (below === undefined ? undefined : platformOf(stages, below))
}
