/** Measurements of Postgres or a service as plots, with what happened at the time. */
import { useQuery } from '@tanstack/react-query'
import { useMemo, useState } from 'react'
import { useApi } from '../../api/accounts.ts'
import { backupsQuery, databaseQuery, metricsQuery, sizesQuery, tasksQuery } from '../../api/queries.ts'
import { Field } from '../../components/field.tsx'
import { Plot } from '../../components/plot.tsx'
import { type Source, SourceField } from '../../components/source.tsx'
import { Empty, Result, Status } from '../../components/state.tsx'
import { bytes, moment, operationText, quantity } from '../../lib/format.ts'
import { eventsIn, intervalMs, plotsOf, type Range, rangeNames, sharedBytes, startsIn } from '../../lib/metrics.ts'
import { type Target, useTarget } from '../../lib/target.ts'
import { useOwner } from '../../lib/use-owner.ts'
import { texts } from '../../texts.ts'

const own = texts.metrics
type Read = { series: Parameters<typeof plotsOf>[0]; from: number; to: number }

/** The bytes of the target's volume, by its size and what it has grown to; 0 if they are not known. */
function useVolumeBytes(target: Target): number {
  const api = useApi()
  const { data: sizes = [] } = useQuery(sizesQuery(api))
  // A branch has the volume that its database had.
  const { data: database } = useQuery(databaseQuery(api, target.id))
  const size = useOwner(target)?.size
  const given = [database?.storage?.volume_size, ...sizes.filter(one => one.name === size).map(one => one.storage_size)]
  return Math.max(0, ...given.map(text => quantity(text ?? '') ?? 0))
}

function Plots({ target, range, read: { series, from, to } }: { target: Target; range: Range; read: Read }) {
  const api = useApi()
  const { id, branchId } = target
  const { data: tasks = [] } = useQuery(tasksQuery(api, { subject_id: branchId ?? id }))
  const { data: found = [] } = useQuery({ ...backupsQuery(api, id), enabled: branchId === undefined })
  // They are of the database: a branch has none.
  const backups = branchId === undefined ? found : []
  const plots = useMemo(() => plotsOf(series, intervalMs[range]), [series, range])
  const volume = useVolumeBytes(target)
  const shared = sharedBytes(series, volume)
  const note = shared === undefined ? undefined : own.shared(bytes(shared), bytes(volume))
  const happened = [...eventsIn(tasks, backups, from, to), ...startsIn(series, from, to)].sort((a, b) => a.at - b.at)
  const known = happened.map(({ at }) => at).join(' ')
  // The same list while nothing else has happened, so that plots are not drawn again.
  const events = useMemo(() => (known === '' ? [] : known.split(' ').map(Number)), [known])
  return (
    <>
      {plots.length === 0 && <Empty title={own.none}>{own.noneWhat}</Empty>}
      <div className="plots">
        {plots.map(plot => (
          <Plot
            key={plot.key}
            plot={plot}
            from={from}
            to={to}
            events={events}
            note={plot.series === 'volume' ? note : undefined}
          />
        ))}
      </div>
      <section aria-labelledby="events" className="stack-small">
        <h2 id="events">{own.events}</h2>
        <p className="quiet">{happened.length === 0 ? own.noEvents : own.eventsWhat}</p>
        <ul className="stack-small">
          {happened.toReversed().map(({ key, at, name, status }) => (
            <li key={key} className="row">
              <time dateTime={new Date(at).toISOString()}>{moment(at)}</time>
              {operationText(name)}
              {status !== undefined && <Status status={status} />}
            </li>
          ))}
        </ul>
      </section>
    </>
  )
}

export default function Metrics() {
  const target = useTarget()
  const [source, setSource] = useState<Source>('postgres')
  const [range, setRange] = useState<Range>('1h')
  const query = useQuery(metricsQuery(useApi(), target, source, range))
  return (
    <section className="card card-body stack" aria-label={own.title}>
      <div className="sql-options">
        <SourceField target={target} label={own.source} source={source} onChange={setSource} />
        <Field label={own.range} hint={own.rangeHint}>
          {given => (
            <select
              {...given}
              className="input"
              value={range}
              onChange={event => setRange(rangeNames.find(one => one === event.target.value) ?? '1h')}
            >
              {rangeNames.map(one => (
                <option key={one} value={one}>
                  {own.ranges[one]}
                </option>
              ))}
            </select>
          )}
        </Field>
      </div>
      <Result query={query} what={own.title}>
        {read => <Plots target={target} range={range} read={read} />}
      </Result>
    </section>
  )
}
