import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import type { UiCheck, UiDiscovery, UiReportedDevice } from '../../source.js'
import { items } from '../feed.js'
import { deviceTitle } from '../model/device-title.js'
import { counted, nameOf } from '../model/shown.js'
import { Choice } from '../parts/choice.js'
import type { YamlEditor } from '../parts/yaml-editor.js'
import { ask, type Draft, draft, NEW_DRAFT } from '../trial.js'

/** A text is checked when a person has written nothing for so long, in milliseconds. */
const QUIET_MS = 300

/** Writes a Configuration, shows what is wrong with it, and what it would find. */
export function TryPage() {
  const { trial } = items.value.about
  if (trial === undefined)
    return (
      <div class="empty">
        <h1>Configurations cannot be tried here</h1>
      </div>
    )
  return <Trial writes={trial === 'write'} />
}

function Trial({ writes }: { readonly writes: boolean }) {
  const { text, open, key } = draft.value
  const editor = useRef<YamlEditor>(undefined)
  const checked = useCheck(draft.value)
  const { check, failure } = checked
  // A person can run and apply what has been checked, and nothing newer.
  const names = checked.text === text && problemsOf(check) === 0 ? check?.configurations : undefined
  useEffect(() => editor.current?.show(check?.findings ?? []), [check])
  return (
    <>
      <div class="title-line">
        <h1>Try a Configuration</h1>
        <p class="quiet">{open === undefined ? 'a new text' : <bdi>{open.file}</bdi>}</p>
      </div>
      {writes ? (
        <OpenFile />
      ) : (
        <p class="calm map-note">
          Nothing is saved here: the agent was started without <code>--write</code>. Copy the text
          into a file that the agent follows, or start it with <code>--write</code>.
        </p>
      )}
      <div class="columns">
        <section class="section section-editor" aria-label="Text">
          <Editor key={key} text={text} editor={editor} />
        </section>
        <div>
          <Findings
            check={check}
            failure={failure}
            onChoice={(place) => editor.current?.goTo(place)}
          />
          <Discovery names={names ?? []} />
          {writes && <Apply name={names?.[0]} />}
        </div>
      </div>
    </>
  )
}

interface EditorProps {
  readonly text: string
  readonly editor: { current: YamlEditor | undefined | null }
}

/** The editor is loaded when a person comes here. */
function Editor({ text, editor }: EditorProps) {
  const host = useRef<HTMLDivElement>(null)
  const [isLoaded, setLoaded] = useState(false)
  useEffect(() => {
    let isOver = false
    void import('../parts/yaml-editor.js').then(({ openYamlEditor }) => {
      if (isOver || host.current === null) return
      editor.current = openYamlEditor(host.current, text, (written) => {
        draft.value = { ...draft.value, text: written }
      })
      setLoaded(true)
    })
    return () => {
      isOver = true
      editor.current?.close()
      editor.current = undefined
    }
  }, [])
  return (
    <>
      {!isLoaded && <p class="loading">Loading the editor…</p>}
      <div ref={host} />
    </>
  )
}

interface Checked {
  readonly text: string
  readonly check?: UiCheck
  readonly failure?: string
}

/** What is wrong with a text: of an earlier text, until the server has answered. */
function useCheck({ text, open }: Draft): Checked {
  const [checked, setChecked] = useState<Checked>({ text: '' })
  useEffect(() => {
    const over = new AbortController()
    const timer = setTimeout(() => {
      ask('check', { text, open }, over.signal).then(
        (check) => setChecked({ text, check }),
        (error: unknown) => {
          if (!over.signal.aborted) setChecked({ text, failure: messageOf(error) })
        },
      )
    }, QUIET_MS)
    return () => {
      clearTimeout(timer)
      over.abort()
    }
  }, [text, open])
  return checked
}

type Finding = UiCheck['findings'][number]

interface FindingsProps {
  readonly check: UiCheck | undefined
  readonly failure: string | undefined
  onChoice(place: NonNullable<Finding['place']>): void
}

function Findings({ check, failure, onChoice }: FindingsProps) {
  const problems = problemsOf(check)
  return (
    <section class="section">
      <h2>Checks</h2>
      <p class={problems > 0 || failure !== undefined ? 'tone-bad' : 'quiet'} role="status">
        {failure ?? summaryOf(check)}
      </p>
      <ul class="findings" aria-label="Findings">
        {check?.findings.map(({ level, path, place, message }, index) => (
          <li key={index}>
            <button
              type="button"
              class="finding"
              disabled={place === undefined}
              onClick={() => place !== undefined && onChoice(place)}
            >
              <span class={level === 'problem' ? 'tone-bad' : 'tone-warn'}>
                {level}
                {place !== undefined && `, line ${place.line}`}
              </span>{' '}
              <bdi class="lines">{path === '' ? message : `${path}: ${message}`}</bdi>
            </button>
          </li>
        ))}
      </ul>
      {(check?.more ?? 0) > 0 && <p class="quiet">{counted(check?.more ?? 0, 'finding')} more</p>}
    </section>
  )
}

function problemsOf(check: UiCheck | undefined): number {
  return check?.findings.filter(({ level }) => level === 'problem').length ?? 0
}

function summaryOf(check: UiCheck | undefined): string {
  if (check === undefined) return 'Checking…'
  const problems = problemsOf(check)
  const warnings = check.findings.length - problems
  return `${counted(problems, 'problem')}, ${counted(warnings, 'warning')}`
}

type DiscoveryState =
  | { readonly kind: 'none' }
  | { readonly kind: 'running' }
  | { readonly kind: 'failed'; readonly message: string }
  | { readonly kind: 'found'; readonly found: UiDiscovery }

/** @param names the Configurations of a text without problems */
function Discovery({ names }: { readonly names: readonly string[] }) {
  const [state, setState] = useState<DiscoveryState>({ kind: 'none' })
  const [chosen, setChosen] = useState('')
  const name = names.find((each) => each === chosen) ?? names[0]
  const discover = async () => {
    setState({ kind: 'running' })
    await ask('discover', { text: draft.value.text, name }).then(
      (found) => setState({ kind: 'found', found }),
      (error: unknown) => setState({ kind: 'failed', message: messageOf(error) }),
    )
  }
  return (
    <section class="section">
      <h2>Discovery</h2>
      <p class="quiet small">
        Asks the handler once, as <code>akri discover</code> does. Nothing is saved.
      </p>
      <div class="actions">
        {names.length > 1 && (
          <Choice
            label="Configuration to discover"
            value={name ?? ''}
            choices={names.map((each) => [each, each] as const)}
            onChoice={setChosen}
          />
        )}
        <button
          type="button"
          class="button"
          disabled={name === undefined || state.kind === 'running'}
          onClick={discover}
        >
          Run discovery
        </button>
      </div>
      <div aria-live="polite">
        {state.kind === 'running' && <p class="quiet">Discovering; this can take two minutes…</p>}
        {state.kind === 'failed' && (
          <p class="tone-bad lines">
            <bdi>{state.message}</bdi>
          </p>
        )}
        {state.kind === 'found' && <Found found={state.found} />}
      </div>
    </section>
  )
}

/** The devices that a list shows. */
const MAX_SHOWN = 100

function Found({ found }: { readonly found: UiDiscovery }) {
  const { devices, leftOut, problems, remarks } = found
  return (
    <>
      <p>Would find {counted(devices.length, 'device')}.</p>
      {remarks.map((remark) => (
        <p class="quiet lines" key={remark}>
          <bdi>{remark}</bdi>
        </p>
      ))}
      <List label="Devices" items={devices}>
        {({ id, properties }) => {
          const { title, detail } = deviceTitle(properties, id)
          return (
            <>
              <bdi class="row-title">{title}</bdi> <bdi class="row-detail">{detail}</bdi>
            </>
          )
        }}
      </List>
      <Reported title="Left out" devices={leftOut} />
      <Reported title="With a problem" devices={problems} />
    </>
  )
}

function Reported(props: {
  readonly title: string
  readonly devices: readonly UiReportedDevice[]
}) {
  const { title, devices } = props
  if (devices.length === 0) return null
  return (
    <>
      <h3>{title}</h3>
      <List label={title} items={devices}>
        {({ id, reason, detail = '' }) => (
          <>
            <bdi class="row-title">{id}</bdi> <bdi class="row-detail">{reason}</bdi>{' '}
            <bdi class="row-detail">{detail}</bdi>
          </>
        )}
      </List>
    </>
  )
}

interface ListProps<Item> {
  readonly label: string
  readonly items: readonly Item[]
  children(item: Item): ComponentChildren
}

function List<Item>({ label, items: all, children }: ListProps<Item>) {
  if (all.length === 0) return null
  return (
    <>
      <ul class="findings" aria-label={label}>
        {all.slice(0, MAX_SHOWN).map((item, index) => (
          <li key={index}>{children(item)}</li>
        ))}
      </ul>
      {all.length > MAX_SHOWN && <p class="quiet">{all.length - MAX_SHOWN} more</p>}
    </>
  )
}

/** Opens the file of a Configuration that the agent has. */
function OpenFile() {
  const [failure, setFailure] = useState('')
  const { open } = draft.value
  const names = [...items.value.configurations.values()].map(({ object }) => nameOf(object)).sort()
  const choose = async (configuration: string) => {
    setFailure('')
    if (configuration === '') {
      draft.value = { ...NEW_DRAFT }
      return
    }
    await ask('open', { configuration }).then(
      ({ file, text, version }) => {
        draft.value = { text, open: { configuration, version, file }, key: `${file} ${version}` }
      },
      (error: unknown) => setFailure(messageOf(error)),
    )
  }
  return (
    <div class="tools">
      <Choice
        label="Configuration to edit"
        value={open?.configuration ?? ''}
        choices={[['', 'a new Configuration'], ...names.map((name) => [name, name] as const)]}
        onChoice={(name) => void choose(name)}
      />
      <p class="tone-bad" role="status">
        <bdi>{failure}</bdi>
      </p>
    </div>
  )
}

/** Writes the file, after a question. @param name its first Configuration, if it may be written */
function Apply({ name }: { readonly name: string | undefined }) {
  const dialog = useRef<HTMLDialogElement>(null)
  const [answer, setAnswer] = useState<readonly [tone: string, text: string]>(['quiet', ''])
  const { open } = draft.value
  const write = async () => {
    dialog.current?.close()
    const { text } = draft.value
    await ask('write', { text, open }).then(
      (written) => {
        setAnswer(['good', `${written.file} is written: the agent follows it`])
        draft.value = { ...draft.value, open: written }
      },
      (error: unknown) => setAnswer(['bad', messageOf(error)]),
    )
  }
  return (
    <section class="section">
      <h2>Apply</h2>
      <div class="actions">
        <button
          type="button"
          class="button"
          disabled={name === undefined}
          onClick={() => dialog.current?.showModal()}
        >
          Apply…
        </button>
      </div>
      <p class={`tone-${answer[0]} lines`} role="status">
        <bdi>{answer[1]}</bdi>
      </p>
      <dialog ref={dialog} aria-labelledby="apply-question">
        <p id="apply-question">
          {open === undefined ? (
            <>
              Write a new file for <bdi>{name}</bdi>?
            </>
          ) : (
            <>
              Replace <bdi>{open.file}</bdi>?
            </>
          )}{' '}
          The agent uses it at once.
        </p>
        <div class="actions">
          <button type="button" class="button" onClick={write}>
            Write the file
          </button>
          <button type="button" class="button" onClick={() => dialog.current?.close()}>
            Cancel
          </button>
        </div>
      </dialog>
    </section>
  )
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
