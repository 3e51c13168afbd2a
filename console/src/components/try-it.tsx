/** A form for one request to a service: a REST request, a tool call or a question. It also shows the curl command. */
import { type ReactNode, useState } from 'react'
import type { Service, ServiceType } from '../lib/services.ts'
import { methods, needsBody, type Trial, type TryRequest, tryCommand, tryRequest } from '../lib/try-it.ts'
import { useTry } from '../lib/use-try.ts'
import { texts } from '../texts.ts'
import { Button } from './button.tsx'
import { Code } from './code.tsx'
import { Field } from './field.tsx'
import { TryAnswer } from './try-answer.tsx'

const own = texts.services.trial
const maxTextLength = 4000

type TextProps = {
  label: string
  hint?: string
  value: string
  onChange: (value: string) => void
  lines?: number
  error?: string | undefined
}

function Text({ label, hint, value, onChange, lines = 1, error }: TextProps) {
  return (
    <Field label={label} hint={hint} error={error}>
      {attributes => (
        <textarea
          {...attributes}
          className="input mono"
          rows={lines}
          maxLength={maxTextLength}
          value={value}
          onChange={event => onChange(event.target.value)}
        />
      )}
    </Field>
  )
}

type SendProps = { type: ServiceType; command: string | undefined; request: TryRequest | undefined }

/** Shows the command and the answer. Sends the request only when the user clicks the button. */
function Send({ type, command, request }: SendProps): ReactNode {
  const { attempt, send, cancel } = useTry()
  const isRunning = attempt.state === 'running'
  return (
    <>
      {command !== undefined && <Code label={own.command(texts.services.names[type])} text={command} />}
      <div className="row">
        {isRunning ? (
          <Button onClick={cancel}>{own.cancel}</Button>
        ) : (
          <Button variant="primary" disabled={request === undefined} onClick={() => request && send(request)}>
            {own.send}
          </Button>
        )}
      </div>
      <TryAnswer type={type} attempt={attempt} />
    </>
  )
}

function TryRest({ uri }: { uri: string }) {
  const [trial, setTrial] = useState<Trial['rest']>({
    ...{ method: 'GET', path: 'my_table', query: 'limit=10', body: '{}', token: '' },
  })
  const change = (next: Partial<Trial['rest']>) => setTrial({ ...trial, ...next })
  const command = tryCommand('rest', uri, trial)
  return (
    <>
      <Field label={own.method}>
        {attributes => (
          <select
            {...attributes}
            className="input"
            value={trial.method}
            onChange={event => change({ method: methods.find(one => one === event.target.value) ?? 'GET' })}
          >
            {methods.map(one => (
              <option key={one}>{one}</option>
            ))}
          </select>
        )}
      </Field>
      <Text label={own.path} hint={own.pathHint} value={trial.path} onChange={path => change({ path })} />
      <Text label={own.query} hint={own.queryHint} value={trial.query} onChange={query => change({ query })} />
      {needsBody(trial.method) && (
        <Text
          label={own.body}
          lines={3}
          value={trial.body}
          onChange={body => change({ body })}
          error={command === undefined ? own.notJson : undefined}
        />
      )}
      <Field label={own.jwt} hint={own.jwtHint}>
        {attributes => (
          <input
            {...attributes}
            className="input mono"
            type="password"
            autoComplete="off"
            maxLength={maxTextLength}
            value={trial.token}
            onChange={event => change({ token: event.target.value.trim() })}
          />
        )}
      </Field>
      <Send type="rest" command={command} request={tryRequest('rest', trial)} />
    </>
  )
}

function TryMcp({ uri }: { uri: string }) {
  const [trial, setTrial] = useState<Trial['mcp']>({ tool: 'query_database', arguments: '{"query": "SELECT 1"}' })
  const command = tryCommand('mcp', uri, trial)
  return (
    <>
      <Text label={own.tool} value={trial.tool} onChange={tool => setTrial({ ...trial, tool })} />
      <Text
        label={own.arguments}
        lines={3}
        value={trial.arguments}
        onChange={text => setTrial({ ...trial, arguments: text })}
        error={command === undefined ? own.notObject : undefined}
      />
      <Send type="mcp" command={command} request={tryRequest('mcp', trial)} />
    </>
  )
}

function TryRag({ uri, pipelines }: { uri: string; pipelines: readonly string[] }) {
  const [question, setQuestion] = useState('')
  const [chosen, setChosen] = useState('')
  const pipeline = pipelines.find(one => one === chosen) ?? pipelines[0] ?? 'my_pipeline'
  const trial = { pipeline, question }
  return (
    <>
      <Field label={own.pipeline}>
        {attributes => (
          <select {...attributes} className="input" value={pipeline} onChange={event => setChosen(event.target.value)}>
            {pipelines.map(one => (
              <option key={one}>{one}</option>
            ))}
          </select>
        )}
      </Field>
      <Text label={own.question} hint={own.questionHint} lines={2} value={question} onChange={setQuestion} />
      <Send
        type="rag"
        command={tryCommand('rag', uri, trial)}
        request={question.trim() === '' ? undefined : tryRequest('rag', trial)}
      />
    </>
  )
}

export function TryIt({ type, name, service }: { type: ServiceType; name: string; service: Service }) {
  const uri = service.uri ?? ''
  return (
    <details>
      <summary>{own.title(name)}</summary>
      <div className="stack try-it">
        <p className="quiet">{type === 'rest' ? own.why : `${own.why} ${own.whyToken}`}</p>
        {type === 'rest' && <TryRest uri={uri} />}
        {type === 'mcp' && <TryMcp uri={uri} />}
        {type === 'rag' && (
          <TryRag uri={uri} pipelines={service.rag_config?.pipelines.map(({ name: pipeline }) => pipeline) ?? []} />
        )}
      </div>
    </details>
  )
}
