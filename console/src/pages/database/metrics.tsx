/** The page of metrics: plots for Postgres or a service, and the events of the same time. */
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

/**
 * Returns the bytes of the target's volume: the storage of the target's size, or the current size of the database's
 * volume if that is larger. Returns 0 if both are unknown.
 */
function useVolumeBytes(target: Target): number {
  const api = useApi()
  const { data: sizes = [] } = useQuery(sizesQuery(api))
  // A new branch has a volume of the same size as its database.
  const { data: database } = useQuery(databaseQuery(api, target.id))
  const size = useOwner(target)?.size
  const capacities = [
    database?.storage?.volume_size,
    ...sizes.filter(one => one.name === size).map(one => one.storage_size),
  ]
  return Math.max(0, ...capacities.map(text => quantity(text ?? '') ?? 0))
}

function Plots({ target, range, read: { series, from, to } }: { target: Target; range: Range; read: Read }) {
  const api = useApi()
  const { id, branchId } = target
  const { data: tasks = [] } = useQuery(tasksQuery(api, { subject_id: branchId ?? id }))
  const { data: cached = [] } = useQuery({ ...backupsQuery(api, id), enabled: branchId === undefined })
  // For a branch, the cache can still return the database's backups. A branch has no backups.
  const backups = branchId === undefined ? cached : []
  const plots = useMemo(() => plotsOf(series, intervalMs[range]), [series, range])
  const volume = useVolumeBytes(target)
  const shared = sharedBytes(series, volume)
  const note = shared === undefined ? undefined : own.shared(bytes(shared), bytes(volume))
  const events = [...eventsIn(tasks, backups, from, to), ...startsIn(series, from, to)].sort((a, b) => a.at - b.at)
  const timesText = events.map(({ at }) => at).join(' ')
  // Returns the same array while the times are the same, so that the plots are not drawn again.
  const eventTimes = useMemo(() => (timesText === '' ? [] : timesText.split(' ').map(Number)), [timesText])
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
            events={eventTimes}
            note={plot.series === 'volume' ? note : undefined}
          />
        ))}
      </div>
      <section aria-labelledby="events" className="stack-small">
        <h2 id="events">{own.events}</h2>
        <p className="quiet">{events.length === 0 ? own.noEvents : own.eventsWhat}</p>
        <ul className="stack-small">
          {events.toReversed().map(({ key, at, name, status }) => (
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
          {attributes => (
            <select
              {...attributes}
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
