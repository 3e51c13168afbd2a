/** The page of logs: the log of Postgres or a service, with filters by text and severity. */
import { useDeferredValue, useState } from 'react'
import { Button } from '../../components/button.tsx'
import { Check, Field } from '../../components/field.tsx'
import { LogLines } from '../../components/log-lines.tsx'
import { type Source, SourceField } from '../../components/source.tsx'
import { Empty, Loading } from '../../components/state.tsx'
import { matching, type Severity, severities } from '../../lib/logs.ts'
import { keyOf, type Target, useTarget } from '../../lib/target.ts'
import { useLog } from '../../lib/use-log.ts'
import { texts } from '../../texts.ts'

const own = texts.logs

type ShownProps = { target: Target; source: Source; isFollowing: boolean; typed: string; severity: Severity }

function Shown({ target, source, isFollowing, typed, severity }: ShownProps) {
  const { lines, isLoading, error, retry } = useLog(target, source, isFollowing)
  const shown = matching(lines, useDeferredValue(typed), severity)
  return (
    <div className="stack-small">
      {error !== null && (
        <div className="notice tone-bad" role="alert">
          <strong>{texts.errors.title}</strong>
          <span className="wrap">{error.message}</span>
          <Button small onClick={retry}>
            {texts.errors.retry}
          </Button>
        </div>
      )}
      {isLoading && <Loading what={own.title} />}
      {!isLoading && error === null && shown.length === 0 && (
        <Empty title={lines.length === 0 ? own.none : own.noMatch} />
      )}
      {shown.length > 0 && (
        <>
          <p className="quiet" role="status">
            {own.count(shown.length, lines.length)}
          </p>
          <LogLines lines={shown} isFollowing={isFollowing} />
        </>
      )}
    </div>
  )
}

export default function Logs() {
  const target = useTarget()
  const [source, setSource] = useState<Source>('postgres')
  const [typed, setTyped] = useState('')
  const [severity, setSeverity] = useState<Severity>('all')
  const [isFollowing, setIsFollowing] = useState(true)
  return (
    <section className="card card-body stack" aria-label={own.title}>
      <div className="sql-options">
        <SourceField target={target} label={own.source} source={source} onChange={setSource} />
        <Field label={own.search}>
          {attributes => (
            <input
              {...attributes}
              type="search"
              className="input"
              maxLength={200}
              value={typed}
              onChange={event => setTyped(event.target.value)}
            />
          )}
        </Field>
        <Field label={own.severity}>
          {attributes => (
            <select
              {...attributes}
              className="input"
              value={severity}
              onChange={event => setSeverity(severities.find(one => one === event.target.value) ?? 'all')}
            >
              {severities.map(one => (
                <option key={one} value={one}>
                  {own.severities[one]}
                </option>
              ))}
            </select>
          )}
        </Field>
        <Check label={own.follow} hint={own.followHint} checked={isFollowing} onChange={setIsFollowing} />
      </div>
      <Shown
        key={`${keyOf(target)} ${source}`}
        target={target}
        source={source}
        isFollowing={isFollowing}
        typed={typed}
        severity={severity}
      />
    </section>
  )
}
