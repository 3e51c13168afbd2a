/** The answer of a service: status, time and body. It renders every part as plain text. */
import type { ServiceType } from '../lib/services.ts'
import { hintOf, type ServiceAnswer, viewOf } from '../lib/try-answer.ts'
import type { Attempt } from '../lib/use-try.ts'
import { texts } from '../texts.ts'
import { ChangeError } from './change-error.tsx'
import { Code } from './code.tsx'

const own = texts.services.trial

function Body({ type, answer }: { type: ServiceType; answer: ServiceAnswer }) {
  const view = viewOf(type, answer)
  const name = texts.services.names[type]
  switch (view.kind) {
    case 'fault':
      return <p className="notice tone-bad">{own.fault(view.message)}</p>
    case 'tool':
      return (
        <>
          {view.isError && <p className="notice tone-bad">{own.toolError}</p>}
          {view.parts.map(({ label, text }, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: the parts of an answer do not change
            <Code key={index} label={own.part(name, index + 1, label)} text={text} />
          ))}
        </>
      )
    case 'answer':
      return (
        <>
          <p className="try-text">{view.text}</p>
          <h3>{own.sources(view.sources.length)}</h3>
          <ol className="try-sources">
            {view.sources.map(({ id, score, content }, index) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: the sources of an answer do not change
              <li key={index}>
                <span className="mono quiet">{own.source(id, score)}</span>
                <p className="try-text">{content}</p>
              </li>
            ))}
          </ol>
        </>
      )
    case 'body':
      return view.text === '' ? (
        <p className="quiet">{own.empty}</p>
      ) : (
        <Code label={own.answer(name)} text={view.text} />
      )
  }
}

function Answered({ type, answer }: { type: ServiceType; answer: ServiceAnswer }) {
  const { status, content_type: contentType, milliseconds, truncated } = answer
  const hint = hintOf(type, answer)
  return (
    <section className="stack-small try-answer" aria-label={own.answerOf(texts.services.names[type])}>
      <div className="row">
        <span className={`badge ${status < 400 ? 'tone-good' : 'tone-bad'}`}>{own.status(status)}</span>
        <span className="quiet">{own.time(milliseconds, contentType)}</span>
      </div>
      {hint !== undefined && <p className="notice tone-warning">{own.hints[hint]}</p>}
      {truncated && <p className="notice tone-warning">{own.truncated}</p>}
      <Body type={type} answer={answer} />
    </section>
  )
}

export function TryAnswer({ type, attempt }: { type: ServiceType; attempt: Attempt }) {
  return (
    <>
      <p className="quiet" role="status">
        {attempt.state === 'running' && own.sending}
        {attempt.state === 'cancelled' && own.cancelled}
        {attempt.state === 'answered' && own.arrived}
      </p>
      {attempt.state === 'failed' && <ChangeError error={attempt.error} />}
      {attempt.state === 'answered' && <Answered type={type} answer={attempt.answer} />}
    </>
  )
}
