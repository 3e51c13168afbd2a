/** One request to a service, as a command to run: a REST request, a call of a tool, or a question. */
import { type ReactNode, useState } from 'react'
import type { Service, ServiceType } from '../lib/services.ts'
import { methods, needsBody, type Trial, tryCommand } from '../lib/try-it.ts'
import { texts } from '../texts.ts'
import { Code } from './code.tsx'
import { Field } from './field.tsx'

const own = texts.services.trial
const longest = 4000

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
      {given => (
        <textarea
          {...given}
          className="input mono"
          rows={lines}
          maxLength={longest}
          value={value}
          onChange={event => onChange(event.target.value)}
        />
      )}
    </Field>
  )
}

function Command({ text }: { text: string | undefined }): ReactNode {
  return text === undefined ? null : <Code label={own.command} text={text} />
}

function TryRest({ uri }: { uri: string }) {
  const [trial, setTrial] = useState<Trial['rest']>({ method: 'GET', path: 'my_table', query: 'limit=10', body: '{}' })
  const change = (next: Partial<Trial['rest']>) => setTrial({ ...trial, ...next })
  const command = tryCommand('rest', uri, trial)
  return (
    <>
      <Field label={own.method}>
        {given => (
          <select
            {...given}
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
      <Command text={command} />
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
        error={command === undefined ? own.notJson : undefined}
      />
      <Command text={command} />
    </>
  )
}

function TryRag({ uri, pipelines }: { uri: string; pipelines: readonly string[] }) {
  const [question, setQuestion] = useState('')
  const [chosen, setChosen] = useState('')
  const pipeline = pipelines.find(one => one === chosen) ?? pipelines[0] ?? 'my_pipeline'
  return (
    <>
      <Field label={own.pipeline}>
        {given => (
          <select {...given} className="input" value={pipeline} onChange={event => setChosen(event.target.value)}>
            {pipelines.map(one => (
              <option key={one}>{one}</option>
            ))}
          </select>
        )}
      </Field>
      <Text label={own.question} hint={own.questionHint} lines={2} value={question} onChange={setQuestion} />
      <Command text={tryCommand('rag', uri, { pipeline, question })} />
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
