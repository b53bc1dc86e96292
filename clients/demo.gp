# The picture of clients/demo.sh. Called with: gnuplot -c demo.gp FOLDER SECONDS_OF_THE_DROP BUDGET_MS OUTPUT TERMINAL
folder = ARG1; drop = ARG2 + 0; budget = ARG3 + 0
set terminal @ARG5
set output ARG4
set datafile separator ","
set multiplot layout 4, 1 margins 0.09, 0.97, 0.07, 0.96 spacing 0.02, 0.05
set grid lc rgb "#dddddd"
set key top right
set arrow from first drop, graph 0 to first drop, graph 1 nohead dashtype 2 lc rgb "#888888"
adapted = folder . "/adapted.csv"; fixed = folder . "/fixed.csv"
distance(x, y, z) = 100 * sqrt(x**2 + y**2 + (z - 1)**2)

set ylabel "height, m"
plot adapted using "time":"z" with lines lw 2 lc rgb "#0060ad" title "adapting", \
     fixed using "time":"z" with lines lw 2 lc rgb "#dd5500" title "adaptation off"
set ylabel "error, cm"
set yrange [0:*]
plot adapted using "time":(distance(column("x"), column("y"), column("z"))) with lines lw 2 lc rgb "#0060ad" notitle, \
     fixed using "time":(distance(column("x"), column("y"), column("z"))) with lines lw 2 lc rgb "#dd5500" notitle
set yrange [*:*]
set ylabel "coefficients"
coefficients = folder . "/adapted.coefficients"
stats coefficients using 0 nooutput
plot for [i = 2:STATS_columns] coefficients using 1:i with lines notitle
set ylabel "reply, ms"
set xlabel "seconds"
set yrange [0:*]
plot adapted using "time":"latency_ms" with points pt 7 ps 0.3 lc rgb "#0060ad" notitle, \
     fixed using "time":"latency_ms" with points pt 7 ps 0.3 lc rgb "#dd5500" notitle, \
     budget with lines lw 2 lc rgb "#cc0000" title "budget"
unset multiplot
